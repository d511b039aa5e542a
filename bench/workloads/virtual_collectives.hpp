// SPDX-License-Identifier: Apache-2.0
// Collective copies on a simulated machine in virtual time: links of 55 GB/s to the host, one a
// device, and of 450 GB/s between devices. A device has one engine for copies to or from other
// devices.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "berth/bytes.hpp"
#include "berth/runtime.hpp"

#include "device/device_context.hpp"
#include "sim/simulator.hpp"
#include "support/measured_simulator.hpp"

namespace berth::bench {

/// Each measurement is in nanoseconds, from the call until all devices have their bytes.
class VirtualCollectives {
 public:
  /// `bytes` of device memory on each of `devices`, and as many pinned; a multiple of 16 MiB.
  VirtualCollectives(int devices, std::size_t bytes, bool peer = true)
      : bytes_(bytes), simulator_(config(devices, peer)), runtime_(std::in_place, options()) {
    for (int device = 0; device < devices; ++device) {
      streams_.push_back(runtime_->create_stream(Device::cuda(device)));
      memory_.push_back(reserve(device));
    }
    pinned_ = runtime_->pinned_memory().allocate(bytes);
    // Warms up the one-time work of each kind.
    time([&] {
      collectives().broadcast(memory_[0], bytes_, on(0), others());
      collectives().broadcast(pinned_.data(), bytes_, on(0), shards(bytes_));
    });
  }

  // From device 0 to all others.
  std::uint64_t broadcast() {
    return time([&] { collectives().broadcast(memory_[0], bytes_, on(0), others()); });
  }
  /// One copy after the other, on the stream of device 0.
  std::uint64_t broadcast_naively() {
    return time([&] {
      for (std::size_t device = 1; device < memory_.size(); ++device)
        copier().copy_async(memory_[device], memory_[0], bytes_, on(0));
    });
  }
  /// To one other device.
  std::uint64_t one_copy() {
    return time([&] { copier().copy_async(memory_[1], memory_[0], bytes_, on(0)); });
  }

  // From pinned memory to all.
  std::uint64_t broadcast_from_host() {
    return time([&] { collectives().broadcast(pinned_.data(), bytes_, on(0), shards(bytes_)); });
  }
  /// Each on the stream of its own device.
  std::uint64_t broadcast_from_host_naively() {
    return time([&] {
      for (std::size_t device = 0; device < memory_.size(); ++device)
        copier().copy_async(memory_[device], pinned_.data(), bytes_, on(device));
    });
  }

  // Equal parts of the pinned memory.
  std::uint64_t scatter() {
    return time(
        [&] { collectives().scatter(pinned_.data(), bytes_, on(0), shards(part_bytes())); });
  }
  std::uint64_t gather() {
    return time([&] { collectives().gather(pinned_.data(), bytes_, on(0), shards(part_bytes())); });
  }
  /// Waits for each part before the next.
  std::uint64_t scatter_naively() { return one_by_one(true); }
  std::uint64_t gather_naively() { return one_by_one(false); }

 private:
  /// Memory that is mapped repeatedly, so that a gigabyte takes 16 MiB of the machine's own memory.
  /// The content is not checked here; tests of the simulated driver and of the copies do that.
  static constexpr std::size_t kPhysicalBytes = 16_MiB;

  static sim::Config config(int devices, bool peer) {
    sim::Config config = measured_simulator(sim::Progress::timed);
    config.devices = devices;
    config.peer = peer;
    config.granularity = kPhysicalBytes;
    return config;
  }
  static RuntimeOptions options() {
    RuntimeOptions options;
    options.driver = "sim";
    options.read_environment = false;
    return options;
  }

  std::byte* reserve(int device) {
    DeviceContext& context = runtime_->devices().context(Device::cuda(device));
    const Driver& driver = context.driver();
    const ContextScope scope(context);
    CUmemAllocationProp properties{};
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    properties.location.id = context.native();
    CUmemGenericAllocationHandle physical = 0;
    driver.mem_create(&physical, kPhysicalBytes, &properties, 0ULL);
    CUdeviceptr address = 0;
    driver.mem_address_reserve(&address, bytes_, std::size_t{0}, CUdeviceptr{0}, 0ULL);
    for (std::size_t offset = 0; offset < bytes_; offset += kPhysicalBytes)
      driver.mem_map(address + offset, kPhysicalBytes, std::size_t{0}, physical, 0ULL);
    const CUmemAccessDesc access{properties.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    driver.mem_set_access(address, bytes_, &access, std::size_t{1});
    return reinterpret_cast<std::byte*>(address);
  }

  [[nodiscard]] Collectives& collectives() { return runtime_->collectives(); }
  [[nodiscard]] Copier& copier() { return runtime_->copier(); }
  [[nodiscard]] StreamRef on(std::size_t device) const { return streams_[device]; }
  [[nodiscard]] std::size_t part_bytes() const { return bytes_ / memory_.size(); }

  [[nodiscard]] std::vector<Shard> shards(std::size_t bytes) const {
    std::vector<Shard> shards;
    for (std::size_t device = 0; device < memory_.size(); ++device)
      shards.push_back({memory_[device], bytes, on(device)});
    return shards;
  }
  [[nodiscard]] std::vector<Shard> others() const {
    std::vector<Shard> others = shards(bytes_);
    others.erase(others.begin());
    return others;
  }

  std::uint64_t one_by_one(bool to_device) {
    auto* const host = static_cast<std::byte*>(pinned_.data());
    return time([&] {
      for (std::size_t device = 0; device < memory_.size(); ++device) {
        std::byte* const part = host + device * part_bytes();
        if (to_device)
          copier().copy(memory_[device], part, part_bytes(), on(device));
        else
          copier().copy(part, memory_[device], part_bytes(), on(device));
      }
    });
  }

  std::uint64_t time(const std::function<void()>& submit) {
    const std::uint64_t before = simulator_.now_ns();
    submit();
    for (const Stream& stream : streams_) stream.ref().sync();
    return simulator_.now_ns() - before;
  }

  const std::size_t bytes_;
  sim::Simulator simulator_;
  std::optional<Runtime> runtime_;
  std::vector<Stream> streams_;  ///< by device
  std::vector<std::byte*> memory_;
  Allocation pinned_;
};

}  // namespace berth::bench
