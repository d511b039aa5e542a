// SPDX-License-Identifier: Apache-2.0
// Notifications of a CompletionQueue by CUDA's host functions. A queue can end before the driver
// has run, or dropped, the last host function. So a host function gets a number instead of a
// pointer, and a number that is no longer registered is ignored.
#pragma once

#include <cuda.h>

#include <cstdint>

namespace berth {

/// Threads  Called on any thread.
class NoticeTarget {
 public:
  /// Called on a thread of the driver: must be short and make no driver call.
  virtual void notice(std::uint64_t number) noexcept = 0;

 protected:
  ~NoticeTarget() = default;
};

/// A unique number that refers to `target` until it is closed.
std::uint64_t open_notice(NoticeTarget& target);
/// After it returns, the target is not called for `number`.
void close_notice(std::uint64_t number) noexcept;

/// The host function for cuLaunchHostFunc, and its argument.
void CUDA_CB give_notice(void* number) noexcept;
inline void* notice_data(std::uint64_t number) {
  return reinterpret_cast<void*>(static_cast<std::uintptr_t>(number));
}

}  // namespace berth
