// SPDX-License-Identifier: Apache-2.0
// A Runtime with two CUDA devices, and a type `fake` with the devices of a FakeMachine.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "berth/runtime.hpp"

#include "support/errors.hpp"
#include "support/fake_backend.hpp"
#include "support/simulation.hpp"

namespace berth::test {

inline sim::Config two_cuda_devices() {
  sim::Config config;
  config.devices = 2;
  return config;
}

/// Destruction fails the test where the Runtime left a buffer or the backend alive.
class BackendFixture {
 public:
  BackendFixture() { register_fake("fake"); }
  ~BackendFixture() {
    machine->run_all();
    simulation.runtime.reset();
    CHECK(machine->buffers_live == 0);
    CHECK(machine->fillings_live == 0);
    CHECK(machine->backends_live == 0);
  }
  BackendFixture(const BackendFixture&) = delete;
  BackendFixture& operator=(const BackendFixture&) = delete;

  void register_fake(std::string_view type) {
    runtime().register_backend(type, std::make_unique<FakeBackend>(machine));
  }
  [[nodiscard]] Runtime& runtime() { return *simulation.runtime; }
  [[nodiscard]] DeviceBuffers& buffers() { return runtime().buffers(); }
  [[nodiscard]] static Device device(int ordinal) {
    return Device::of(DeviceType::register_name("fake"), ordinal);
  }

  Simulation simulation{two_cuda_devices()};
  const std::shared_ptr<FakeMachine> machine = std::make_shared<FakeMachine>();
};

/// Bytes that differ from their neighbors and between seeds.
inline std::vector<std::byte> numbered_bytes(std::size_t count, unsigned seed = 1) {
  std::vector<std::byte> bytes(count);
  for (std::size_t i = 0; i < count; ++i)
    bytes[i] = static_cast<std::byte>((i * 131 + (i >> 8) * 17 + seed * 29) & 0xff);
  return bytes;
}

/// The content of a buffer, by one read.
inline std::vector<std::byte> content_of(const DeviceBuffer& buffer) {
  std::vector<std::byte> bytes(buffer.bytes());
  buffer.read(bytes.data(), 0, bytes.size()).wait();
  return bytes;
}

}  // namespace berth::test
