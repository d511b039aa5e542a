// SPDX-License-Identifier: Apache-2.0
// Memory of every kind that a copy may name, with a known content and a guard around it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "berth/bytes.hpp"
#include "berth/copier.hpp"

#include "support/allocator_checks.hpp"
#include "support/pattern.hpp"
#include "support/simulation.hpp"

namespace berth::test {

using Bytes = std::vector<unsigned char>;

/// Marks a test of what gates are for, as that start() returns at once. All other tests of copies
/// run without gates as well.
inline auto needs_gates() {
  return doctest::test_suite("needs gates");
}

struct CopyTest : Simulation {
  explicit CopyTest(const sim::Config& config = {}, CopierOptions options = {})
      : Simulation(config, with(options)), copier(runtime->copier()) {}

  static RuntimeOptions with(CopierOptions copier) {
    RuntimeOptions options;
    options.copier = copier;
    return options;
  }

  [[nodiscard]] Stream stream(int device = 0) {
    return runtime->create_stream(Device::cuda(device));
  }

  Copier& copier;
};

enum class Kind {
  pageable,        ///< of the heap
  pinned,          ///< of berth
  registered,      ///< of the heap, page-locked by someone else
  device,          ///< cuda:0, of berth
  foreign_device,  ///< cuda:0, of cuMemAlloc
  peer,            ///< cuda:1, of berth
  managed,         ///< of cuMemAllocManaged
};

inline constexpr Kind kKinds[] = {Kind::pageable, Kind::pinned,         Kind::registered,
                                  Kind::device,   Kind::foreign_device, Kind::peer,
                                  Kind::managed};

inline const char* name_of(Kind kind) {
  constexpr const char* kNames[] = {"pageable",       "pinned", "registered", "device",
                                    "foreign device", "peer",   "managed"};
  return kNames[static_cast<std::size_t>(kind)];
}

inline bool is_host(Kind kind) {
  return kind == Kind::pageable || kind == Kind::pinned || kind == Kind::registered;
}
inline int device_of(Kind kind) {
  return kind == Kind::peer ? 1 : 0;
}

/// Whether streams of that device may copy between the two.
inline bool may_copy(int device, Kind from, Kind to) {
  const auto is_of_one_device = [](Kind kind) { return !is_host(kind) && kind != Kind::managed; };
  if (!is_of_one_device(from) && !is_of_one_device(to)) return true;
  return (is_of_one_device(from) && device_of(from) == device) ||
         (is_of_one_device(to) && device_of(to) == device);
}
/// One whose streams may.
inline int stream_device_of(Kind from, Kind to) {
  return is_host(to) || to == Kind::managed ? device_of(from) : device_of(to);
}

/// `bytes` of one kind of memory, at an odd address, between guards. What it does to device memory
/// goes past berth, straight to the driver, and is done when the call returns.
class Buffer {
 public:
  Buffer(CopyTest& test, Kind kind, std::size_t bytes) : test_(test), kind_(kind), bytes_(bytes) {
    const std::size_t whole = bytes + 2 * kGuard;
    const Device device = Device::cuda(device_of(kind));
    const DeviceGuard guard(test.runtime->devices(), device);
    switch (kind) {
      case Kind::pageable:
        heap_.resize(whole);
        base_ = heap_.data();
        break;
      case Kind::registered:
        heap_.resize(whole);
        base_ = heap_.data();
        REQUIRE(sim::berth_sim_cuMemHostRegister(base_, whole, CU_MEMHOSTREGISTER_PORTABLE) ==
                CUDA_SUCCESS);
        break;
      case Kind::pinned:
        block_ = test.runtime->pinned_memory().allocate(whole);
        base_ = static_cast<unsigned char*>(block_.data());
        break;
      case Kind::device:
      case Kind::peer:
        block_ = test.runtime->memory(device).allocate(whole, test.runtime->default_stream(device));
        base_ = static_cast<unsigned char*>(block_.data());
        break;
      case Kind::foreign_device:
        REQUIRE(sim::berth_sim_cuMemAlloc(&raw_, whole) == CUDA_SUCCESS);
        base_ = reinterpret_cast<unsigned char*>(raw_);
        break;
      case Kind::managed:
        REQUIRE(sim::berth_sim_cuMemAllocManaged(&raw_, whole, CU_MEM_ATTACH_GLOBAL) ==
                CUDA_SUCCESS);
        base_ = reinterpret_cast<unsigned char*>(raw_);
        break;
    }
    fill_whole();
  }
  ~Buffer() {
    const DeviceGuard guard(test_.runtime->devices(), Device::cuda(device_of(kind_)));
    if (kind_ == Kind::registered) sim::berth_sim_cuMemHostUnregister(base_);
    if (raw_ != 0) sim::berth_sim_cuMemFree(raw_);
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  [[nodiscard]] unsigned char* data() const { return base_ + kGuard; }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }

  void write(const Bytes& content) {
    REQUIRE(content.size() == bytes_);
    if (host_reaches_it()) {
      std::copy(content.begin(), content.end(), data());
      return;
    }
    on_own_stream([&](CUstream own) {
      return sim::berth_sim_cuMemcpyAsync(address_of(data()), address_of(content.data()), bytes_,
                                          own);
    });
  }
  /// The content now, whatever is pending.
  [[nodiscard]] Bytes read() const { return read(data(), bytes_); }
  /// Whether nothing was written beside the buffer.
  [[nodiscard]] bool guards_hold() const {
    const Bytes guard(kGuard, kGuardByte);
    return read(base_, kGuard) == guard && read(data() + bytes_, kGuard) == guard;
  }

 private:
  static constexpr std::size_t kGuard = 37;
  static constexpr unsigned char kGuardByte = 0xC3;

  [[nodiscard]] bool host_reaches_it() const { return is_host(kind_) || kind_ == Kind::managed; }
  void fill_whole() {
    const std::size_t whole = bytes_ + 2 * kGuard;
    if (host_reaches_it()) {
      std::fill_n(base_, whole, kGuardByte);
      return;
    }
    on_own_stream([&](CUstream own) {
      return sim::berth_sim_cuMemsetD8Async(address_of(base_), kGuardByte, whole, own);
    });
  }
  template <class Submit>
  void on_own_stream(const Submit& submit) {
    const DeviceGuard guard(test_.runtime->devices(), Device::cuda(device_of(kind_)));
    CUstream own = nullptr;
    REQUIRE(sim::berth_sim_cuStreamCreateWithPriority(&own, CU_STREAM_NON_BLOCKING, 0) ==
            CUDA_SUCCESS);
    REQUIRE(submit(own) == CUDA_SUCCESS);
    REQUIRE(sim::berth_sim_cuStreamSynchronize(own) == CUDA_SUCCESS);
    REQUIRE(sim::berth_sim_cuStreamDestroy(own) == CUDA_SUCCESS);
  }
  [[nodiscard]] Bytes read(const unsigned char* from, std::size_t bytes) const {
    if (host_reaches_it()) return {from, from + bytes};
    return test_.simulator.peek(address_of(from), bytes);
  }

  CopyTest& test_;
  Kind kind_;
  std::size_t bytes_;
  unsigned char* base_ = nullptr;
  Bytes heap_;
  Allocation block_;
  CUdeviceptr raw_ = 0;
};

}  // namespace berth::test
