// SPDX-License-Identifier: Apache-2.0
// A device allocator and its pools on a tapped device: what a test of their lifetime, limits or
// captures needs from the driver beside them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "berth/bytes.hpp"

#include "pool/device_memory.hpp"
#include "support/tapped_device.hpp"

namespace berth::test {

/// A device of 64 MiB in manual progress, with taps and its allocator.
struct PoolsTest : TappedDevice {
  explicit PoolsTest(DeviceAllocatorOptions options = {})
      : TappedDevice(config()), memory(context, events, std::move(options)) {}
  ~PoolsTest() { simulator.run_all(); }

  void begin_capture(StreamRef stream, CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL) {
    const ContextScope scope(context);
    driver.stream_begin_capture(stream.native(), mode);
  }
  /// Whether the capture was valid to its end.
  bool end_capture(StreamRef stream) {
    const ContextScope scope(context);
    CUgraph graph = nullptr;
    const CUresult result = driver.try_stream_end_capture(stream.native(), &graph);
    if (graph != nullptr) driver.graph_destroy(graph);
    return result == CUDA_SUCCESS;
  }
  /// Memory that is not berth's.
  [[nodiscard]] CUdeviceptr allocate_beside(std::size_t bytes) {
    const ContextScope scope(context);
    CUdeviceptr address = 0;
    driver.mem_alloc(&address, bytes);
    return address;
  }
  void free_beside(CUdeviceptr address) {
    const ContextScope scope(context);
    driver.mem_free(address);
  }
  [[nodiscard]] std::uint64_t used() const { return simulator.device_bytes_used(0); }
  [[nodiscard]] std::uint64_t driver_calls() const {
    std::uint64_t sum = 0;
    for (const std::uint64_t calls : driver.calls()) sum += calls;
    return sum;
  }

  DeviceAllocator memory;

 private:
  static sim::Config config() {
    sim::Config config;
    config.memory = {64_MiB};
    config.progress = sim::Progress::manual;
    return config;
  }
};

template <class Action>
bool throws(const Action& action) {
  try {
    static_cast<void>(action());
  } catch (const Error&) {
    return true;
  }
  return false;
}

}  // namespace berth::test
