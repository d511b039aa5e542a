// SPDX-License-Identifier: Apache-2.0
// Copies on a simulated link, in virtual time, which is exact and the same on each machine: the
// link has 55 GB/s, and a thread of the host copies 14.8 GB/s between two buffers
// (sim/work/cost_model.cpp). The bytes are really copied.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "berth/bytes.hpp"
#include "berth/device_registry.hpp"
#include "berth/event_pool.hpp"
#include "berth/pinned_allocator.hpp"

#include "copy/operand/linear_copy.hpp"
#include "copy/staged/host_work.hpp"
#include "copy/staged/staging_memory.hpp"
#include "device/device_context.hpp"
#include "driver/driver.hpp"
#include "driver/nvml.hpp"
#include "sim/functions.hpp"
#include "sim/simulator.hpp"
#include "sim/work/cost_model.hpp"
#include "support/measured_simulator.hpp"
#include "workloads/observed_device.hpp"
#include "workloads/virtual_crew.hpp"

namespace berth::bench {

using Direction = StagedRoute::Direction;

/// Bytes per nanosecond, which is GB/s.
inline double rate(std::size_t bytes, std::uint64_t ns) {
  return static_cast<double>(bytes) / static_cast<double>(ns);
}
inline double thread_rate() {
  return rate(1_GiB, sim::host_copy_ns(1_GiB));
}
inline double link_rate(Direction direction) {
  return rate(1_GiB,
              sim::transfer_ns(direction == Direction::to_device ? sim::Engine::host_to_device
                                                                 : sim::Engine::device_to_host,
                               1_GiB));
}

/// One device with a link, and `threads` host threads that copy, or that wait for a disk.
class VirtualCopies {
 public:
  static constexpr std::size_t kSlotBytes = 4_MiB;
  static constexpr std::size_t kSlots = 16;

  explicit VirtualCopies(std::size_t threads, PieceEnd piece_end = by_copying(thread_rate()))
      : crew_(simulator_, work_, threads, std::move(piece_end)),
        stream_(context_, {}),
        other_stream_(context_, {}) {}
  ~VirtualCopies() {
    simulator_.run_all();
    const ContextScope scope(context_);
    for (const CUdeviceptr address : device_) driver_.mem_free(address);
  }
  VirtualCopies(const VirtualCopies&) = delete;
  VirtualCopies& operator=(const VirtualCopies&) = delete;

  // Each in nanoseconds, for `bytes` of pageable memory.
  /// Through staging memory, by the threads.
  std::uint64_t staged(Direction direction, std::size_t bytes) {
    stage(direction, 64_MiB);  // pins the staging memory
    return stage(direction, bytes);
  }
  /// By the driver's own means.
  std::uint64_t by_driver(Direction direction, std::size_t bytes) {
    const Range range(*this, bytes);
    const std::uint64_t before = simulator_.now_ns();
    submit(direction, range.device, range.host.get(), bytes, stream_);
    sync();
    return simulator_.now_ns() - before;
  }
  /// By one thread that copies a slot and waits until it is sent, or the reverse.
  std::uint64_t naively(Direction direction, std::size_t bytes) {
    const Range range(*this, bytes);
    const Allocation slot = pinned_.allocate(kSlotBytes);
    const std::uint64_t before = simulator_.now_ns();
    for (std::size_t offset = 0; offset < bytes; offset += kSlotBytes) {
      const std::size_t chunk = std::min(kSlotBytes, bytes - offset);
      if (direction == Direction::to_device) simulator_.spend(sim::host_copy_ns(chunk));
      submit(direction, range.device + offset, slot.data(), chunk, stream_);
      sync();
      if (direction == Direction::to_host) simulator_.spend(sim::host_copy_ns(chunk));
    }
    return simulator_.now_ns() - before;
  }

  /// The longest that any of `count` copies of `small_bytes` takes behind one of `bytes` of
  /// pageable memory in the same direction, on another stream.
  std::uint64_t longest_behind_staged(Direction direction, std::size_t bytes,
                                      std::size_t small_bytes, int count) {
    const Range large(*this, bytes);
    const Range small(*this, small_bytes);
    start(direction, large, bytes, stream_);
    std::uint64_t longest = 0;
    for (int copy = 0; copy < count; ++copy) {
      const std::uint64_t before = simulator_.now_ns();
      const auto started = start(direction, small, small_bytes, other_stream_);
      while (!started->is_complete) crew_.step();
      longest = std::max(longest, simulator_.now_ns() - before);
    }
    crew_.run();
    return longest;
  }
  /// The same behind pinned memory, which is submitted in pieces of `piece_bytes`.
  std::uint64_t longest_behind_direct(Direction direction, std::size_t bytes,
                                      std::size_t small_bytes, int count, std::size_t piece_bytes) {
    const Range large(*this, bytes, Host::pinned);
    const Range small(*this, small_bytes, Host::pinned);
    for (std::size_t offset = 0; offset < bytes; offset += piece_bytes) {
      submit(direction, large.device + offset, large.data() + offset,
             std::min(piece_bytes, bytes - offset), stream_);
    }
    std::uint64_t longest = 0;
    for (int copy = 0; copy < count; ++copy) {
      const std::uint64_t before = simulator_.now_ns();
      submit(direction, small.device, small.data(), small_bytes, other_stream_);
      other_stream_.ref().sync();
      longest = std::max(longest, simulator_.now_ns() - before);
      simulator_.spend(10'007);  // each coincides with another part of the large copy
    }
    sync();
    return longest;
  }

 private:
  enum class Host { pageable, pinned };

  /// Memory of the host and of the device.
  struct Range {
    Range(VirtualCopies& copies, std::size_t bytes, Host kind = Host::pageable)
        : device(copies.allocate(bytes)) {
      if (kind == Host::pinned)
        block = copies.pinned_.allocate(bytes);
      else
        host.reset(new std::byte[bytes]());
    }
    [[nodiscard]] std::byte* data() const {
      return host != nullptr ? host.get() : static_cast<std::byte*>(block.data());
    }
    std::byte* device;
    std::unique_ptr<std::byte[]> host;
    Allocation block;
  };

  static sim::Config config() {
    sim::Config config = measured_simulator(sim::Progress::timed);
    config.memory = {8_GiB};
    return config;
  }
  static DriverSource source() {
    return {.name = "sim",
            .resolve = [](const char* symbol, int) { return sim::resolve(symbol); },
            .problem = {},
            .library = {}};
  }

  std::byte* allocate(std::size_t bytes) {
    const ContextScope scope(context_);
    CUdeviceptr address = 0;
    driver_.mem_alloc(&address, bytes);
    device_.push_back(address);
    return reinterpret_cast<std::byte*>(address);
  }
  void submit(Direction direction, void* device, void* host, std::size_t bytes, StreamRef stream) {
    const ContextScope scope(context_);
    const auto there = reinterpret_cast<CUdeviceptr>(device);
    const auto here = reinterpret_cast<CUdeviceptr>(host);
    if (direction == Direction::to_device)
      driver_.memcpy_async(there, here, bytes, stream.native());
    else
      driver_.memcpy_async(here, there, bytes, stream.native());
  }
  void sync() { stream_.ref().sync(); }

  HostWork::CopyPtr start(Direction direction, const Range& range, std::size_t bytes,
                          StreamRef stream) {
    const auto copy = std::make_shared<StagedCopy>(
        stream,
        StagedRoute{
            .direction = direction,
            .host = std::make_unique<LinearHost>(range.data()),
            .device = std::make_unique<ObservedDevice>(range.device, [this] { crew_.catch_up(); }),
            .bytes = bytes},
        memory_.try_take(bytes).value());
    work_.start(copy, stream == stream_ ? lane_ : other_lane_, 0, events_);
    return copy;
  }
  std::uint64_t stage(Direction direction, std::size_t bytes) {
    const Range range(*this, bytes);
    const std::uint64_t before = simulator_.now_ns();
    start(direction, range, bytes, stream_);
    return crew_.run() - before;
  }

  sim::Simulator simulator_{config()};
  Driver driver_{source(), {}};
  Nvml nvml_{source()};
  DeviceRegistry registry_{driver_, nvml_};
  DeviceContext& context_ = registry_.context(Device::cuda(0));
  EventPool events_{context_};
  PinnedAllocator pinned_{registry_, {}};
  StagingMemory memory_{pinned_, Device::cuda(0), kSlotBytes, kSlots};
  HostWork work_{[](StagedCopy& copy) { copy.release(); }};
  const HostWork::LanePtr lane_ = std::make_shared<CopyLane>();
  const HostWork::LanePtr other_lane_ = std::make_shared<CopyLane>();
  VirtualCrew crew_;
  Stream stream_;
  Stream other_stream_;
  std::vector<CUdeviceptr> device_;
};

}  // namespace berth::bench
