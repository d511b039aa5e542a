// SPDX-License-Identifier: Apache-2.0
// What every benchmark runs on: one Runtime on one driver, its first device, and streams of it.
//
// Threads  One, but for what says otherwise.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "berth/runtime.hpp"

#include "device/device_context.hpp"

namespace berth::bench {

class Session {
 public:
  /// The driver that BERTH_DRIVER names, and the simulated one where it is unset.
  Session();
  /// The driver of this name, whatever the environment says.
  explicit Session(const std::string& driver);

  /// Why nothing can be measured, in one line; empty where something can.
  [[nodiscard]] std::string problem() const;
  /// Whether driver calls reach the simulator, which makes every figure one of CPU cost alone.
  [[nodiscard]] bool simulated() const;

  [[nodiscard]] Runtime& runtime() { return runtime_; }
  [[nodiscard]] Device device() const { return Device::cuda(0); }
  [[nodiscard]] DeviceContext& context() const { return runtime_.devices().context(device()); }
  [[nodiscard]] const Driver& driver() const { return context().driver(); }

  /// The driver's functions by NVIDIA's names, those too that berth does not use; null where there
  /// is none.
  [[nodiscard]] std::function<void*(const char* symbol)> driver_functions() const;

  /// This session's own streams, the same ones each time: the first of them, or the first `count`.
  [[nodiscard]] StreamRef stream() { return streams(1).front(); }
  [[nodiscard]] std::vector<StreamRef> streams(std::size_t count);

  /// To be called by each thread that makes raw driver calls or uses a peer. Safe from any thread.
  void enter_thread() const { runtime_.devices().set_current(device()); }

  /// Calls made to the driver so far, by berth and by peers.
  [[nodiscard]] std::uint64_t driver_calls() const;

 private:
  Runtime runtime_;
  std::vector<Stream> streams_;
};

}  // namespace berth::bench
