// SPDX-License-Identifier: Apache-2.0
// Staged copies without a Copier: the test does all host work.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "berth/bytes.hpp"

#include "copy/operand/linear_copy.hpp"
#include "copy/staged/host_work.hpp"
#include "copy/staged/staging_memory.hpp"
#include "support/tapped_device.hpp"

namespace berth::test {

inline sim::Config staged_config(sim::Progress progress) {
  sim::Config config;
  config.memory = {256_MiB};
  config.progress = progress;
  return config;
}

struct StagedTest : TappedDevice {
  using Direction = StagedRoute::Direction;

  explicit StagedTest(sim::Config config, std::size_t slot_bytes = 64_KiB, std::size_t slots = 8)
      : TappedDevice(std::move(config)), memory(pinned, Device::cuda(0), slot_bytes, slots) {}
  ~StagedTest() {
    complete_all();
    const ContextScope scope(context);
    for (const CUdeviceptr address : allocated_) driver.mem_free(address);
  }

  /// While the host's memory of the copies is there: a test's own is gone before its fixture is.
  void complete_all() { work.complete_all(); }

  /// Moves the next piece; the copy that it is of, or null where there is none.
  HostWork::CopyPtr move_next() {
    const auto task = work.take();
    if (!task) return nullptr;
    task->move();
    work.finish(*task);
    return task->copy;
  }

  /// Device memory of the driver.
  std::byte* allocate(std::size_t bytes) {
    const ContextScope scope(context);
    CUdeviceptr address = 0;
    driver.mem_alloc(&address, bytes);
    allocated_.push_back(address);
    return reinterpret_cast<std::byte*>(address);
  }
  [[nodiscard]] std::vector<unsigned char> content(const std::byte* device,
                                                   std::size_t bytes) const {
    return simulator.peek(reinterpret_cast<CUdeviceptr>(device), bytes);
  }
  void fill(std::byte* device, const std::vector<unsigned char>& bytes, StreamRef stream) {
    const ContextScope scope(context);
    driver.memcpy_async(reinterpret_cast<CUdeviceptr>(device),
                        reinterpret_cast<CUdeviceptr>(bytes.data()), bytes.size(), stream.native());
    driver.stream_synchronize(stream.native());
  }

  HostWork::CopyPtr start(StagedRoute route, StreamRef stream, int priority = 0) {
    auto staging = memory.try_take(route.bytes);
    REQUIRE(staging.has_value());
    auto copy = std::make_shared<StagedCopy>(stream, std::move(route), std::move(*staging));
    work.start(copy, lane_of(stream), priority, events);
    return copy;
  }
  HostWork::CopyPtr start(Direction direction, void* host, std::byte* device, std::size_t bytes,
                          StreamRef stream, int priority = 0) {
    return start({.direction = direction,
                  .host = std::make_unique<LinearHost>(static_cast<std::byte*>(host)),
                  .device = std::make_unique<LinearDevice>(device),
                  .bytes = bytes},
                 stream, priority);
  }

  /// The copies of a stream, in its order.
  HostWork::LanePtr lane_of(StreamRef stream) {
    HostWork::LanePtr& lane = lanes_[stream.native()];
    if (lane == nullptr) lane = std::make_shared<CopyLane>();
    return lane;
  }

  PinnedAllocator pinned{registry, {}};
  StagingMemory memory;
  std::atomic<std::size_t> copies_over = 0;
  HostWork work{[this](StagedCopy& copy) {
    copy.release();
    ++copies_over;
  }};

 private:
  std::vector<CUdeviceptr> allocated_;
  std::map<CUstream, HostWork::LanePtr> lanes_;
};

struct ManualStaged : StagedTest {
  ManualStaged() : ManualStaged(staged_config(sim::Progress::manual)) {}
  explicit ManualStaged(sim::Config config) : StagedTest(std::move(config)) {}

  /// Of all functions of the driver.
  [[nodiscard]] std::uint64_t calls() const {
    const auto each = driver.calls();
    return std::accumulate(each.begin(), each.end(), std::uint64_t{0});
  }
};

}  // namespace berth::test
