// SPDX-License-Identifier: Apache-2.0
// A simulator, its device 0 and that device's context, current in the test's thread.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include "sim/functions.hpp"
#include "sim/simulator.hpp"

/// The simulated function: CU(cuMemAlloc)(&pointer, 512).
#define CU(symbol) ::berth::sim::berth_sim_##symbol
/// For calls that a test needs, as opposed to those it is about.
#define OK(call) REQUIRE((call) == CUDA_SUCCESS)

namespace berth::test {

struct SimFixture {
  explicit SimFixture(const std::string& config) : sim(config) {
    OK(CU(cuInit)(0));
    OK(CU(cuDevicePrimaryCtxRetain)(&context, 0));
    OK(CU(cuCtxPushCurrent)(context));
  }
  SimFixture(const SimFixture&) = delete;
  SimFixture& operator=(const SimFixture&) = delete;

  sim::Simulator sim;
  CUcontext context = nullptr;
};

/// Nothing runs unless a test or a host wait makes it.
struct ManualFixture : SimFixture {
  ManualFixture() : SimFixture("memory=1GiB,progress=manual,devices=2") {}
};

struct EagerFixture : SimFixture {
  EagerFixture() : SimFixture("memory=1GiB,devices=2") {}
};

/// Takes the findings, which must all be races.
inline bool found_race(sim::Simulator& simulator) {
  const std::vector<std::string> findings = simulator.take_findings();
  for (const std::string& finding : findings) CHECK(finding.starts_with("race: "));
  return !findings.empty();
}

/// Takes the findings: one leak, whose text contains `what`.
inline bool found_leak(sim::Simulator& simulator, std::string_view what) {
  const std::vector<std::string> findings = simulator.take_findings();
  return findings.size() == 1 && findings[0].starts_with("leak: ") &&
         findings[0].find(what) != std::string::npos;
}

inline CUstream make_stream(unsigned flags = CU_STREAM_NON_BLOCKING) {
  CUstream stream = nullptr;
  OK(CU(cuStreamCreateWithPriority)(&stream, flags, 0));
  return stream;
}
inline std::vector<CUstream> make_streams(std::size_t count) {
  std::vector<CUstream> streams;
  while (streams.size() < count) streams.push_back(make_stream());
  return streams;
}

inline CUevent make_event(unsigned flags = CU_EVENT_DISABLE_TIMING) {
  CUevent event = nullptr;
  OK(CU(cuEventCreate)(&event, flags));
  return event;
}

inline CUdeviceptr make_memory(std::size_t bytes) {
  CUdeviceptr pointer = 0;
  OK(CU(cuMemAlloc)(&pointer, bytes));
  return pointer;
}

inline unsigned char* make_pinned(std::size_t bytes) {
  void* pointer = nullptr;
  OK(CU(cuMemHostAlloc)(&pointer, bytes, 0));
  return static_cast<unsigned char*>(pointer);
}

template <class T>
CUdeviceptr address_of(const T* host) {
  return reinterpret_cast<CUdeviceptr>(host);
}

/// The context of another device, not made current.
inline CUcontext retain(CUdevice device) {
  CUcontext context = nullptr;
  OK(CU(cuDevicePrimaryCtxRetain)(&context, device));
  return context;
}

inline std::vector<unsigned char> bytes_of(std::size_t count, unsigned char value) {
  return std::vector<unsigned char>(count, value);
}

inline CUmemAllocationProp properties_on(int device) {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = device;
  return properties;
}

inline CUmemAccessDesc access_for(int device,
                                  CUmemAccess_flags flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE) {
  CUmemAccessDesc access{};
  access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  access.location.id = device;
  access.flags = flags;
  return access;
}

}  // namespace berth::test
