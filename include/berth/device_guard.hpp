// SPDX-License-Identifier: Apache-2.0
// The current device of a thread, for a scope.
#pragma once

#include "berth/device.hpp"
#include "berth/export.h"

struct CUctx_st;

namespace berth {

class DeviceContext;
class DeviceRegistry;

/// Makes a device's primary context current on the calling thread, and restores the previous
/// context on destruction. Device guards and stream guards (current_stream.hpp) nest in each other
/// like scopes.
///
/// A guard makes no driver call if the enclosing guard, of either kind, has the same current
/// device. Otherwise it queries the current context once, which creates no context, and changes it
/// only if it is a different one. On destruction it undoes only its own change. So it creates only
/// the context of its own device, at the first use of the device.
///
/// Code inside the guard may leave another context current or pushed:
///
/// - Through DeviceRegistry::set_current(): the guard undoes it, and guards inside know of it.
/// - Through the driver or the CUDA runtime, in a guard that changed the context: the guard
///   restores the previous context. The code inside must pop only a push of the guard's own primary
///   context.
/// - Through the driver or the CUDA runtime, in a guard that changed nothing: the context stays,
///   because the guard does not query the driver. DeviceRegistry::current() does query it, and then
///   the guard undoes the change. Until the guard ends or current() is called, a guard inside it
///   for the same device relies on the context that was current at its start. So code that may
///   create such a guard must restore the context, as a guard around the driver's call would.
///
/// Errors   As DeviceRegistry::set_current(); nothing is changed then. The destructor never throws;
///          driver errors go to the report sink.
/// Lifetime Must end before its Runtime. A Runtime that ends within guards of the same thread
///          reports them, and they have no effect any more; guards of other threads are not seen.
/// Threads  Belongs to the thread that created it. Destroying a guard on another thread, or before
///          a guard that was created later, stops the process.
class BERTH_API DeviceGuard {
 public:
  DeviceGuard(const DeviceRegistry& registry, Device device);
  /// For the other parts of berth.
  explicit DeviceGuard(DeviceContext& context);
  ~DeviceGuard();
  DeviceGuard(const DeviceGuard&) = delete;
  DeviceGuard& operator=(const DeviceGuard&) = delete;

 private:
  friend class KnownContext;

  void enter();
  void leave() noexcept;
  [[nodiscard]] bool pop_to_before() const noexcept;

  DeviceContext* context_;      ///< null: its Runtime has ended
  DeviceContext* known_;        ///< the device whose primary context is current; null: unknown
  DeviceGuard* const outer_;    ///< the enclosing guard on this thread
  CUctx_st* before_ = nullptr;  ///< the previous context, if pushed_
  bool pushed_ = false;
};

}  // namespace berth
