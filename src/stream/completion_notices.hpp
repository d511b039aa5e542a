// SPDX-License-Identifier: Apache-2.0
// Notifications of a CompletionQueue by CUDA host functions. A queue can be destroyed before the
// driver has run, or dropped, the last host function. So a host function receives a number instead
// of a pointer, and a number that is no longer registered is ignored.
#pragma once

#include <cuda.h>

#include <cstdint>

namespace berth {

/// Threads  Called on any thread.
class NoticeTarget {
 public:
  /// Called on a driver thread: must be short and make no driver call.
  virtual void notice(std::uint64_t number) noexcept = 0;

 protected:
  ~NoticeTarget() = default;
};

/// Returns a unique number that refers to `target` until it is unregistered.
std::uint64_t register_notice(NoticeTarget& target);
/// After the call, the target is not notified of `number`.
void unregister_notice(std::uint64_t number) noexcept;

/// The host function for cuLaunchHostFunc, and its argument.
void CUDA_CB deliver_notice(void* number) noexcept;
inline void* notice_data(std::uint64_t number) {
  return reinterpret_cast<void*>(static_cast<std::uintptr_t>(number));
}

}  // namespace berth
