// SPDX-License-Identifier: Apache-2.0
// What CUDA's documentation promises, as cases that run unchanged on the real driver and on the
// simulated one. BERTH_DRIVER picks, as it does for the library; without it, the simulated one.
//
// A case uses no control of the simulator and assumes no progress mode: it never asks in a loop,
// and where it needs work that is not done yet, it puts a Gate in front. One gate at a time: host
// functions of different streams may be serialized. While it is closed, nothing is allocated or
// freed.
#pragma once

#include <cuda.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "driver/driver.hpp"

namespace berth::test {

/// The driver under test. Fails the case where there is none.
Driver& contract_driver();

/// A function that berth does not use, at the ABI of a CUDA version; null where the driver lacks
/// it.
void* find_contract_function(const char* symbol, int version);

/// The driver's own function of that type and name: CONTRACT_FUNCTION(cuMemAllocAsync, 11020).
#define CONTRACT_FUNCTION(symbol, version) \
  reinterpret_cast<decltype(&::symbol)>(::berth::test::find_contract_function(#symbol, version))

/// Device 0's primary context, current in this thread, for the length of a case.
struct ContractFixture {
  ContractFixture() : driver(contract_driver()) {
    driver.primary_ctx_retain(&context, 0);
    driver.ctx_push_current(context);
  }
  ~ContractFixture() {
    driver.try_ctx_synchronize();
    driver.try_ctx_pop_current(nullptr);
    driver.try_primary_ctx_release(0);
  }
  ContractFixture(const ContractFixture&) = delete;
  ContractFixture& operator=(const ContractFixture&) = delete;

  [[nodiscard]] CUstream make_stream(unsigned flags = CU_STREAM_NON_BLOCKING) const {
    CUstream stream = nullptr;
    driver.stream_create_with_priority(&stream, flags, 0);
    return stream;
  }
  [[nodiscard]] CUevent make_event(unsigned flags = CU_EVENT_DISABLE_TIMING) const {
    CUevent event = nullptr;
    driver.event_create(&event, flags);
    return event;
  }
  [[nodiscard]] CUdeviceptr make_memory(std::size_t bytes) const {
    CUdeviceptr pointer = 0;
    driver.mem_alloc(&pointer, bytes);
    return pointer;
  }
  [[nodiscard]] unsigned char* make_pinned(std::size_t bytes, unsigned char value = 0) const {
    void* pointer = nullptr;
    driver.mem_host_alloc(&pointer, bytes, 0U);
    auto* first = static_cast<unsigned char*>(pointer);
    for (std::size_t i = 0; i < bytes; ++i) first[i] = value;
    return first;
  }
  void fill(CUdeviceptr pointer, unsigned char value, std::size_t bytes, CUstream stream) const {
    driver.memset_d8_async(pointer, value, bytes, stream);
  }
  /// Device bytes as they are once `stream` has come to them.
  [[nodiscard]] std::vector<unsigned char> read(CUdeviceptr pointer, std::size_t bytes,
                                                CUstream stream) const {
    std::vector<unsigned char> content(bytes);
    driver.memcpy_async(reinterpret_cast<CUdeviceptr>(content.data()), pointer, bytes, stream);
    driver.stream_synchronize(stream);
    return content;
  }
  [[nodiscard]] bool has_two_devices() const {
    int count = 0;
    driver.device_get_count(&count);
    if (count < 2) MESSAGE("skipped: needs two devices");
    return count >= 2;
  }

  Driver& driver;
  CUcontext context = nullptr;
};

/// Device 1's context, current for the length of a scope.
struct SecondContext {
  explicit SecondContext(Driver& driver_) : driver(driver_) {
    driver.primary_ctx_retain(&context, 1);
    driver.ctx_push_current(context);
  }
  ~SecondContext() {
    driver.try_ctx_synchronize();
    driver.try_ctx_pop_current(nullptr);
    driver.try_primary_ctx_release(1);
  }
  SecondContext(const SecondContext&) = delete;
  SecondContext& operator=(const SecondContext&) = delete;

  Driver& driver;
  CUcontext context = nullptr;
};

/// Holds a stream up until opened. Must be opened before anything waits for that stream, and
/// outlive the work: the case ends with a wait.
class Gate {
 public:
  Gate(Driver& driver, CUstream stream) { driver.launch_host_func(stream, &pass, &open_); }
  ~Gate() { open(); }
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;

  void open() { open_ = true; }

 private:
  static void CUDA_CB pass(void* open) {
    while (!*static_cast<std::atomic<bool>*>(open))
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  std::atomic<bool> open_{false};
};

inline std::vector<unsigned char> bytes_of(std::size_t count, unsigned char value) {
  return std::vector<unsigned char>(count, value);
}

template <class T>
CUdeviceptr address_of(const T* host) {
  return reinterpret_cast<CUdeviceptr>(host);
}

}  // namespace berth::test
