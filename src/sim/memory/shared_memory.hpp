// SPDX-License-Identifier: Apache-2.0
// Device memory that other processes may share: a separate memfd, whose last page identifies it.
// Every holder, including a descriptor in flight between processes, holds a lock on the file, so
// that the creator can detect the last release; the system releases the locks of a process that
// dies. Guarded by sim::mutex.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <sys/types.h>

namespace berth::sim {

using Uuid = std::array<unsigned char, 16>;

class SharedMemory {
 public:
  /// Creates zeroed memory of the device `uuid`, held. Null if the system is out of memory.
  static std::shared_ptr<SharedMemory> create(const Uuid& uuid, std::uint64_t bytes);
  /// Opens a descriptor that this or another simulator exported; not held. Null if the descriptor
  /// is something else. The caller keeps the descriptor.
  static std::shared_ptr<SharedMemory> open(int descriptor);
  ~SharedMemory();
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  /// A new descriptor for other processes, which holds the memory; -1 if the system fails.
  [[nodiscard]] int export_descriptor() const;

  /// Makes data() valid. False if the system fails.
  bool hold();
  /// Invalidates data().
  void release();
  [[nodiscard]] bool is_held() const { return hold_ >= 0; }
  /// Whether another object or process holds it; called only while this object does not.
  [[nodiscard]] bool is_held_elsewhere() const;

  [[nodiscard]] std::byte* data() const { return data_; }
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }
  [[nodiscard]] const Uuid& uuid() const { return uuid_; }
  [[nodiscard]] bool is_same(const SharedMemory& other) const {
    return device_ == other.device_ && inode_ == other.inode_;
  }
  /// Its descriptor in this process, and what identifies the file.
  [[nodiscard]] int file() const { return file_; }
  [[nodiscard]] std::uint64_t file_device() const { return device_; }
  [[nodiscard]] std::uint64_t file_number() const { return inode_; }
  /// Whether this process created it.
  [[nodiscard]] bool is_own() const { return own_; }

 private:
  SharedMemory(int file, std::uint64_t bytes, const Uuid& uuid, bool own);

  int file_;       // without a lock: queries the locks of others
  int hold_ = -1;  // with a lock
  std::uint64_t bytes_;
  Uuid uuid_;
  bool own_;
  dev_t device_ = 0;
  ino_t inode_ = 0;
  std::byte* data_ = nullptr;
};

/// Names the file of a SharedMemory to other processes of the same user and PID namespace.
struct NamedFile {
  std::int32_t process;
  std::int32_t file;  ///< its descriptor in that process
  std::uint64_t file_device;
  std::uint64_t file_number;  ///< identify the file, in case the descriptor was reused

  static NamedFile of(const SharedMemory& memory);
  /// Not held; null if it is gone.
  [[nodiscard]] std::shared_ptr<SharedMemory> open() const;
};

}  // namespace berth::sim
