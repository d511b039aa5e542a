// SPDX-License-Identifier: Apache-2.0
// The environment of a benchmark: one Runtime on one driver, its first device, and its streams.
//
// Threads  One, unless a function states otherwise.
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
  /// The driver that BERTH_DRIVER names, or the simulated one if it is unset.
  Session();
  /// The driver of this name, independent of the environment.
  explicit Session(const std::string& driver);

  /// The reason why measurement is impossible, in one line; empty if it is possible.
  [[nodiscard]] std::string problem() const;
  /// Whether driver calls reach the simulator, so that every figure is a CPU cost only.
  [[nodiscard]] bool simulated() const;

  [[nodiscard]] Runtime& runtime() { return runtime_; }
  [[nodiscard]] Device device() const { return Device::cuda(0); }
  [[nodiscard]] DeviceContext& context() const { return runtime_.devices().context(device()); }
  [[nodiscard]] const Driver& driver() const { return context().driver(); }

  /// The driver's functions by NVIDIA's names, including those that berth does not use; null if
  /// there is none.
  [[nodiscard]] std::function<void*(const char* symbol)> driver_functions() const;

  /// This session's own streams, always the same: the first one, or the first `count`.
  [[nodiscard]] StreamRef stream() { return streams(1).front(); }
  [[nodiscard]] std::vector<StreamRef> streams(std::size_t count);

  /// Call it on each thread that makes raw driver calls or uses a peer. Safe from any thread.
  void enter_thread() const { runtime_.devices().set_current(device()); }

  /// Driver calls so far, by berth and by peers.
  [[nodiscard]] std::uint64_t driver_calls() const;

 private:
  Runtime runtime_;
  std::vector<Stream> streams_;
};

}  // namespace berth::bench
