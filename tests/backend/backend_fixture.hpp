// SPDX-License-Identifier: Apache-2.0
// A Runtime with two CUDA devices, and a type `fake` with the devices of a FakeMachine.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <ios>
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
    CHECK(machine->maps_live == 0);
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

inline void write_content(const std::string& path, const std::vector<std::byte>& content) {
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(content.data()), std::streamsize(content.size()));
}

inline std::vector<std::byte> content_of_file(const std::string& path) {
  std::vector<std::byte> content(std::filesystem::file_size(path));
  std::ifstream file(path, std::ios::binary);
  file.read(reinterpret_cast<char*>(content.data()), static_cast<std::streamsize>(content.size()));
  CHECK(file.good());
  return content;
}

/// Faster than `==` in a build that is not optimized.
inline bool are_equal(const std::vector<std::byte>& left, const std::vector<std::byte>& right) {
  return left.size() == right.size() &&
         (left.empty() || std::memcmp(left.data(), right.data(), left.size()) == 0);
}

/// Bytes that differ from their neighbors and between seeds. They repeat after an odd number of
/// bytes, and are copied from there on, which is faster under sanitizers.
inline std::vector<std::byte> numbered_bytes(std::size_t count, unsigned seed = 1) {
  constexpr std::size_t kPeriod = 65'521;
  std::vector<std::byte> bytes(count);
  for (std::size_t i = 0; i < std::min(count, kPeriod); ++i)
    bytes[i] = static_cast<std::byte>((i * 131 + (i >> 8) * 17 + seed * 29) & 0xff);
  for (std::size_t done = kPeriod; done < count; done *= 2)
    std::memcpy(&bytes[done], bytes.data(), std::min(done, count - done));
  return bytes;
}

/// The content of a buffer, by one read.
inline std::vector<std::byte> content_of(const DeviceBuffer& buffer) {
  std::vector<std::byte> bytes(buffer.bytes());
  buffer.read(bytes.data(), 0, bytes.size()).wait();
  return bytes;
}

}  // namespace berth::test
