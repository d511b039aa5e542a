// SPDX-License-Identifier: Apache-2.0
#include "sim/memory/shared_memory.hpp"

#include <cstring>
#include <fcntl.h>
#include <limits>
#include <string>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "berth/bytes.hpp"

#include "base/format.hpp"

namespace berth::sim {
namespace {

constexpr std::uint64_t kLabelPage = 4_KiB;
constexpr char kMagic[8] = {'b', 'e', 'r', 't', 'h', 's', 'm', '1'};

/// At the start of the last page.
struct Label {
  char magic[sizeof(kMagic)];
  std::uint64_t bytes;
  Uuid uuid;
};

/// Opens the same file again; -1 if the system refuses.
int reopen(int file) {
  return ::open(format_text("/proc/self/fd/{}", file).c_str(), O_RDWR | O_CLOEXEC);
}

struct flock lock_of(short type) {
  struct flock lock {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  lock.l_len = 1;
  return lock;
}

/// An open file with a shared lock, which lasts until its last descriptor is closed.
int reopen_locked(int file) {
  const int locked = reopen(file);
  struct flock lock = lock_of(F_RDLCK);
  if (locked < 0 || fcntl(locked, F_OFD_SETLK, &lock) == 0) return locked;
  close(locked);
  return -1;
}

bool write_label(int file, std::uint64_t bytes, const Uuid& uuid) {
  Label label{{}, bytes, uuid};
  std::memcpy(label.magic, kMagic, sizeof(kMagic));
  return pwrite(file, &label, sizeof(label), static_cast<off_t>(bytes)) == sizeof(label);
}

}  // namespace

SharedMemory::SharedMemory(int file, std::uint64_t bytes, const Uuid& uuid, bool own)
    : file_(file), bytes_(bytes), uuid_(uuid), own_(own) {
  struct stat status {};
  fstat(file_, &status);
  device_ = status.st_dev;
  inode_ = status.st_ino;
}

SharedMemory::~SharedMemory() {
  release();
  close(file_);
}

std::shared_ptr<SharedMemory> SharedMemory::create(const Uuid& uuid, std::uint64_t bytes) {
  const int file = memfd_create("berth-simulated-memory", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (file < 0) return nullptr;
  const std::shared_ptr<SharedMemory> made(new SharedMemory(file, bytes, uuid, true));
  // No process may truncate the file while another has mapped it.
  const bool complete = ftruncate(file, static_cast<off_t>(bytes + kLabelPage)) == 0 &&
                        write_label(file, bytes, uuid) &&
                        fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0;
  return complete && made->hold() ? made : nullptr;
}

std::shared_ptr<SharedMemory> SharedMemory::open(int descriptor) {
  const int seals = fcntl(descriptor, F_GET_SEALS);
  struct stat status {};
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0 || fstat(descriptor, &status) != 0) return nullptr;
  const auto size = static_cast<std::uint64_t>(status.st_size);
  if (size <= kLabelPage) return nullptr;
  Label label{};
  const auto at = static_cast<off_t>(size - kLabelPage);
  if (pread(descriptor, &label, sizeof(label), at) != sizeof(label)) return nullptr;
  const bool ours =
      std::memcmp(label.magic, kMagic, sizeof(kMagic)) == 0 && label.bytes == size - kLabelPage;
  const int file = ours ? reopen(descriptor) : -1;
  if (file < 0) return nullptr;
  return std::shared_ptr<SharedMemory>(new SharedMemory(file, label.bytes, label.uuid, false));
}

int SharedMemory::export_descriptor() const {
  return reopen_locked(file_);
}

bool SharedMemory::hold() {
  if (is_held()) return true;
  hold_ = reopen_locked(file_);
  if (hold_ < 0) return false;
  void* data = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file_, 0);
  if (data == MAP_FAILED) {
    close(hold_);
    hold_ = -1;
    return false;
  }
  data_ = static_cast<std::byte*>(data);
  return true;
}

void SharedMemory::release() {
  if (!is_held()) return;
  munmap(data_, bytes_);
  close(hold_);
  data_ = nullptr;
  hold_ = -1;
}

bool SharedMemory::is_held_elsewhere() const {
  struct flock lock = lock_of(F_WRLCK);
  return fcntl(file_, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

NamedFile NamedFile::of(const SharedMemory& memory) {
  return {getpid(), memory.file(), memory.file_device(), memory.file_number()};
}

std::shared_ptr<SharedMemory> NamedFile::open() const {
  const std::string path = format_text("/proc/{}/fd/{}", process, file);
  const int descriptor = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (descriptor < 0) return nullptr;
  std::shared_ptr<SharedMemory> memory = SharedMemory::open(descriptor);
  close(descriptor);
  const bool is_it = memory != nullptr && memory->file_device() == file_device &&
                     memory->file_number() == file_number;
  return is_it ? memory : nullptr;
}

}  // namespace berth::sim
