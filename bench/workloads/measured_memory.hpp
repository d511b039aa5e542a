// SPDX-License-Identifier: Apache-2.0
// An allocator whose waste is measured from outside: live bytes are counted as requested, and
// reserved bytes are the memory that the device lacks. Neither uses the allocator's counters, so
// that all allocators are measured alike.
#pragma once

#include <algorithm>
#include <cstddef>

#include "berth/stream.hpp"

#include "support/session.hpp"

namespace berth::bench {

/// No other code may use the device meanwhile.
template <class Allocator>
class MeasuredMemory {
 public:
  template <class... Options>
  explicit MeasuredMemory(Session& session, const Options&... options)
      : session_(session), bytes_used_before_(bytes_used()), allocator_(session, options...) {}

  void* allocate(std::size_t bytes, StreamRef stream) {
    void* const data = allocator_.allocate(bytes, stream);
    bytes_live_ += bytes;
    bytes_live_peak_ = std::max(bytes_live_peak_, bytes_live_);
    bytes_reserved_peak_ = std::max(bytes_reserved_peak_, bytes_used() - bytes_used_before_);
    return data;
  }
  void deallocate(void* data, std::size_t bytes, StreamRef stream) {
    bytes_live_ -= bytes;
    allocator_.deallocate(data, bytes, stream);
  }

  [[nodiscard]] std::size_t bytes_live_peak() const { return bytes_live_peak_; }
  [[nodiscard]] std::size_t bytes_reserved_peak() const { return bytes_reserved_peak_; }
  /// Peak reserved / peak live - 1, which frees in between do not reduce.
  [[nodiscard]] double waste() const {
    return static_cast<double>(bytes_reserved_peak_) / static_cast<double>(bytes_live_peak_) - 1;
  }
  [[nodiscard]] const Allocator& allocator() const { return allocator_; }

 private:
  [[nodiscard]] std::size_t bytes_used() const {
    std::size_t bytes_free = 0;
    std::size_t bytes_total = 0;
    session_.driver().mem_get_info(&bytes_free, &bytes_total);
    return bytes_total - bytes_free;
  }

  Session& session_;
  std::size_t bytes_used_before_;
  Allocator allocator_;
  std::size_t bytes_live_ = 0;
  std::size_t bytes_live_peak_ = 0;
  std::size_t bytes_reserved_peak_ = 0;
};

}  // namespace berth::bench
