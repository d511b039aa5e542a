// SPDX-License-Identifier: Apache-2.0
// Device memory that other processes may have too: a memfd of its own, whose last page says what it
// is. Whoever has it, a descriptor in flight between processes included, holds a lock on the file,
// so that the maker knows when the last has let go of it; the system drops the locks of a process
// that dies. Guarded by sim::mutex.
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
  /// Zeros of the device `uuid`, held. Null where the system has no room.
  static std::shared_ptr<SharedMemory> create(const Uuid& uuid, std::uint64_t bytes);
  /// What is behind a descriptor that a simulator exported, this one or another; not held. Null
  /// where it is something else. The descriptor stays the caller's.
  static std::shared_ptr<SharedMemory> open(int descriptor);
  ~SharedMemory();
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  /// A new descriptor for others, which holds the memory; -1 where the system refuses.
  [[nodiscard]] int export_descriptor() const;

  /// Makes data() valid. False where the system refuses.
  bool hold();
  /// data() ends.
  void let_go();
  [[nodiscard]] bool is_held() const { return hold_ >= 0; }
  /// Whether somebody else holds it; only while this object does not.
  [[nodiscard]] bool is_held_elsewhere() const;

  [[nodiscard]] std::byte* data() const { return data_; }
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }
  [[nodiscard]] const Uuid& uuid() const { return uuid_; }
  [[nodiscard]] bool is_same(const SharedMemory& other) const {
    return device_ == other.device_ && inode_ == other.inode_;
  }
  /// Made by this process.
  [[nodiscard]] bool is_own() const { return own_; }

 private:
  SharedMemory(int file, std::uint64_t bytes, const Uuid& uuid, bool own);

  int file_;       // without a lock: asks about those of others
  int hold_ = -1;  // with one
  std::uint64_t bytes_;
  Uuid uuid_;
  bool own_;
  dev_t device_ = 0;
  ino_t inode_ = 0;
  std::byte* data_ = nullptr;
};

}  // namespace berth::sim
