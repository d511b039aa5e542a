// SPDX-License-Identifier: Apache-2.0
// The device on which a thread works, for a scope.
#pragma once

#include "berth/device.hpp"
#include "berth/export.h"

struct CUctx_st;

namespace berth {

class DeviceContext;
class DeviceRegistry;

/// Makes a device's primary context current on the calling thread, and restores on destruction what
/// was current before. Device guards and stream guards (current_stream.hpp) nest in each other like
/// scopes.
///
/// Calls no driver where the guard around it, of either kind, has the same device current. Otherwise
/// it asks once what is current, which takes no context, and changes it only where it is another
/// one; on destruction it undoes only what it changed. So it creates no context but that of its own
/// device, where this is the device's first use.
///
/// The code inside may leave another context current or pushed:
///   - by DeviceRegistry::set_current(): the guard undoes it, and guards inside know of it;
///   - by the driver or the CUDA runtime, in a guard that changed what was current: the guard
///     restores what was current before it. Only a push of its own device's primary context is for
///     the code inside to pop;
///   - likewise, in a guard that changed nothing: it stays, because nobody asks. DeviceRegistry::
///     current() does ask, and then the guard undoes it. Until the guard ends, or somebody asks,
///     a guard inside it for the same device relies on what was current at its beginning: code that
///     may come to make one puts back what it found, as a guard around the driver's call would.
/// Errors   As DeviceRegistry::set_current; nothing is changed then. The destructor never throws:
///          what the driver refuses goes to the report sink.
/// Threads  Belongs to the thread that made it. Destroying a guard on another thread, or before one
///          that was made after it, stops the process.
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

  DeviceContext* const context_;
  DeviceContext* known_;        ///< whose primary context is current; null: berth does not know
  DeviceGuard* const outer_;    ///< the next guard outwards on this thread
  CUctx_st* before_ = nullptr;  ///< what was current, where pushed_
  bool pushed_ = false;
};

}  // namespace berth
