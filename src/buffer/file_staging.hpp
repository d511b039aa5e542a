// SPDX-License-Identifier: Apache-2.0
// The memory through which copies between files and one device of a backend pass. It is mapped once
// with the backend, if that maps memory, so that its devices access it directly.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <span>

#include "base/mutex.hpp"
#include "buffer/part.hpp"

namespace berth {

class BufferSet;
class HostMappingState;
struct RegisteredBackend;

/// Threads  Safe from any thread.
class FileStaging : public std::enable_shared_from_this<FileStaging> {
 public:
  static constexpr std::size_t kPartBytes = std::size_t{4} << 20;
  /// One copy takes two at most. So the next one has a part while those of a copy that was
  /// cancelled are still in use.
  static constexpr std::size_t kParts = 3;
  static constexpr std::size_t kBytes = kParts * kPartBytes;

  /// Nothing is touched before it is used, unless the backend pins it. A backend that does not map
  /// it, or fails to, is not an error.
  /// Errors  std::bad_alloc.
  FileStaging(std::shared_ptr<BufferSet> set, const RegisteredBackend& owner, TaskThread& thread);
  ~FileStaging();
  FileStaging(const FileStaging&) = delete;
  FileStaging& operator=(const FileStaging&) = delete;

  /// A part that returns with its last reference. Null: all are taken.
  /// Errors  std::bad_alloc.
  [[nodiscard]] std::shared_ptr<Part> try_take() BERTH_EXCLUDES(mutex_);

 private:
  /// Pages of the system, which malloc does not keep when they are freed.
  class Pages {
   public:
    Pages();
    ~Pages();
    Pages(const Pages&) = delete;
    Pages& operator=(const Pages&) = delete;
    [[nodiscard]] std::span<std::byte> memory() const { return {data_, kBytes}; }
    [[nodiscard]] std::span<std::byte> part(std::size_t index) const {
      return memory().subspan(index * kPartBytes, kPartBytes);
    }

   private:
    std::byte* data_;
  };

  void give_back(const Part* part) noexcept BERTH_EXCLUDES(mutex_);

  const Pages pages_;
  std::unique_ptr<HostMappingState> mapping_;  ///< null: not mapped
  std::array<Part, kParts> parts_;
  Mutex mutex_;
  std::array<bool, kParts> is_taken_ BERTH_GUARDED_BY(mutex_) = {};
};

}  // namespace berth
