// SPDX-License-Identifier: Apache-2.0
#include "sim/memory/physical_memory.hpp"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <system_error>
#include <unistd.h>
#include <utility>

#include "berth/bytes.hpp"

#include "base/arithmetic.hpp"
#include "base/check.hpp"
#include "base/format.hpp"
#include "base/standard_error.hpp"

namespace berth::sim {
namespace {

constexpr std::uint64_t kPoisonBytes = 4_KiB;
constexpr int kDevicePoison = 0xA5;

/// A driver can only report that it is out of memory, so this prints the reason, once in a process.
/// Always returns false.
bool report_host_failure(const char* call, std::uint64_t bytes) {
  static std::atomic_flag explained;
  const int error = errno;
  if (explained.test_and_set()) return false;
  write_to_stderr(format_text(
      "simulator: the host provides no {} for a device's memory, so that nothing can be "
      "allocated: {}: {}; BERTH_SIM=memory=BYTES makes it smaller\n",
      format_bytes(bytes), call, std::generic_category().message(error)));
  return false;
}

}  // namespace

const PhysicalBlock::Piece& PhysicalBlock::piece_at(std::uint64_t offset) const {
  const auto after = std::upper_bound(
      pieces.begin(), pieces.end(), offset,
      [](std::uint64_t at, const Piece& piece) { return at < piece.block_offset; });
  return *std::prev(after);
}

PhysicalMemory::PhysicalMemory(std::uint64_t bytes, std::uint64_t granularity, bool poison)
    : bytes_total_(bytes),
      granularity_(granularity),
      poison_(poison),
      limit_(bytes),
      extents_(0, align_down(bytes, granularity)) {}

PhysicalMemory::~PhysicalMemory() {
  if (data_ != nullptr) munmap(data_, bytes_total_);
  if (file_ >= 0) close(file_);
}

bool PhysicalMemory::open() {
  if (data_ != nullptr) return true;
  if (file_ < 0) file_ = memfd_create("berth-simulated-device", MFD_CLOEXEC);
  if (file_ < 0) return report_host_failure("memfd_create", bytes_total_);
  if (ftruncate(file_, static_cast<off_t>(bytes_total_)) != 0)
    return report_host_failure("ftruncate (ulimit -f)", bytes_total_);
  void* data =
      mmap(nullptr, bytes_total_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file_, 0);
  if (data == MAP_FAILED) return report_host_failure("mmap (ulimit -v)", bytes_total_);
  // Touching a granule must cost the system only its pages.
  madvise(data, bytes_total_, MADV_NOHUGEPAGE);
  data_ = static_cast<std::byte*>(data);
  return true;
}

std::uint64_t PhysicalMemory::bytes_used() const {
  std::uint64_t bytes = bytes_in_extents_;
  for (const auto& shared : shared_)
    if (shared->is_held() || shared->is_held_elsewhere()) bytes += shared->bytes();
  return bytes;
}

std::uint64_t PhysicalMemory::bytes_free() const {
  const std::uint64_t usable = std::min(limit_, bytes_total_);
  return std::min(usable - std::min(usable, bytes_used()), extents_.free_bytes());
}

bool PhysicalMemory::allocate(PhysicalBlock& block) {
  BERTH_CHECK(is_aligned(block.bytes, granularity_) && block.bytes != 0);
  if (block.bytes > bytes_free() || !open()) return false;
  std::uint64_t offset = 0;
  for (const Extent& extent : extents_.allocate_scattered(block.bytes)) {
    block.pieces.push_back({offset, extent.start, extent.bytes});
    offset += extent.bytes;
  }
  BERTH_CHECK(offset == block.bytes);
  bytes_in_extents_ += block.bytes;
  poison(block);
  block.written = poison_;
  return true;
}

bool PhysicalMemory::allocate_shared(PhysicalBlock& block, const Uuid& uuid) {
  if (block.bytes > bytes_free()) return false;
  block.shared = SharedMemory::create(uuid, block.bytes);
  if (block.shared == nullptr) return false;
  std::erase_if(shared_, [](const auto& shared) {
    return !shared->is_held() && !shared->is_held_elsewhere();
  });
  shared_.push_back(block.shared);
  poison(block);
  return true;
}

void PhysicalMemory::copy_written(std::uint64_t offset, std::uint64_t bytes, std::byte* to) const {
  const auto end = static_cast<off_t>(offset + bytes);
  for (auto at = static_cast<off_t>(offset); at < end;) {
    const off_t first = lseek(file_, at, SEEK_DATA);
    if (first < 0 || first >= end) return;
    const off_t last = std::min(end, lseek(file_, first, SEEK_HOLE));
    std::memcpy(to + (static_cast<std::uint64_t>(first) - offset), data_ + first,
                static_cast<std::size_t>(last - first));
    at = last;
  }
}

bool PhysicalMemory::share(PhysicalBlock& block, const Uuid& uuid, const Moved& moved) {
  std::shared_ptr<SharedMemory> shared = SharedMemory::create(uuid, block.bytes);
  if (shared == nullptr) return false;
  for (const PhysicalBlock::Piece& piece : block.pieces) {
    std::byte* const to = shared->data() + piece.block_offset;
    copy_written(piece.device_offset, piece.bytes, to);
    moved({data_ + piece.device_offset, piece.bytes}, to);
  }
  release_pieces(block);
  block.pieces.clear();
  shared_.push_back(shared);
  block.shared = std::move(shared);
  return true;
}

bool PhysicalMemory::adopt(PhysicalBlock& block, std::shared_ptr<SharedMemory> shared) {
  const auto known = std::find_if(shared_.begin(), shared_.end(),
                                  [&](const auto& other) { return other->is_same(*shared); });
  if (known != shared_.end()) shared = *known;
  if (!shared->hold()) return false;
  if (known == shared_.end()) shared_.push_back(shared);
  block.shared = std::move(shared);
  return true;
}

void PhysicalMemory::poison(const PhysicalBlock& block) const {
  if (poison_) std::memset(bytes_at(block, 0).data(), kDevicePoison, kPoisonBytes);
}

std::span<std::byte> PhysicalMemory::bytes_at(const PhysicalBlock& block,
                                              std::uint64_t offset) const {
  if (block.shared != nullptr) return {block.shared->data() + offset, block.bytes - offset};
  const PhysicalBlock::Piece& piece = block.piece_at(offset);
  const std::uint64_t in_piece = offset - piece.block_offset;
  return {data_ + piece.device_offset + in_piece, piece.bytes - in_piece};
}

void PhysicalMemory::release(PhysicalBlock& block) {
  if (block.shared != nullptr) {
    release_shared(std::move(block.shared));
    return;
  }
  release_pieces(block);
}

void PhysicalMemory::release_pieces(PhysicalBlock& block) {
  for (const PhysicalBlock::Piece& piece : block.pieces) {
    if (block.written)
      fallocate(file_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                static_cast<off_t>(piece.device_offset), static_cast<off_t>(piece.bytes));
    extents_.release(piece.device_offset, piece.bytes);
  }
  bytes_in_extents_ -= block.bytes;
}

void PhysicalMemory::release_shared(std::shared_ptr<SharedMemory> shared) {
  constexpr long kHereAndInTheList = 2;
  if (shared.use_count() > kHereAndInTheList) return;  // another handle of this process has it
  shared->release();
  if (!shared->is_own() || !shared->is_held_elsewhere()) std::erase(shared_, shared);
}

}  // namespace berth::sim
