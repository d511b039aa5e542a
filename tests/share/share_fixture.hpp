// SPDX-License-Identifier: Apache-2.0
// Two ends of a connection, and blocks of a contiguous pool to share over it.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <string>
#include <unistd.h>
#include <utility>
#include <vector>

#include "berth/bytes.hpp"
#include "berth/device_guard.hpp"
#include "berth/memory_connection.hpp"

#include "memory/memory_fixture.hpp"
#include "support/errors.hpp"
#include "support/socket_pair.hpp"

namespace berth::test {

/// Descriptors that the process has open.
inline std::ptrdiff_t descriptors_open() {
  using std::filesystem::directory_iterator;
  return std::distance(directory_iterator("/proc/self/fd"), directory_iterator());
}

/// Fills device memory by the driver, which starts no thread, and waits. False if that fails.
inline bool fill_by_driver(Runtime& runtime, StreamRef stream, void* data, unsigned char value,
                           std::size_t bytes) {
  using Memset = CUresult(CUdeviceptr, unsigned char, std::size_t, CUstream);
  const DeviceGuard guard(runtime.devices(), stream.device());
  auto* const memset = reinterpret_cast<Memset*>(runtime.driver_function("cuMemsetD8Async", 3020));
  if (memset == nullptr) return false;
  const CUresult result = memset(address_of(data), value, bytes, stream.native());
  stream.sync();
  return result == CUDA_SUCCESS;
}

/// A process with a contiguous pool.
struct ShareTest : MemoryTest {
  explicit ShareTest(const sim::Config& config = {}, DeviceAllocatorOptions options = {})
      : MemoryTest(config, std::move(options)),
        stream(test_stream()),
        pool(memory.create_pool({.name = "shared", .contiguous = true})) {}

  [[nodiscard]] MemoryConnection connect(int socket) const {
    return runtime->connect_memory(socket);
  }
  [[nodiscard]] std::vector<Allocation> blocks(std::size_t count, std::size_t bytes) {
    std::vector<Allocation> made;
    for (std::size_t i = 0; i < count; ++i) made.push_back(pool.allocate(bytes, stream));
    return made;
  }
  /// Fills memory and waits.
  void fill(void* data, std::uint8_t value, std::size_t bytes) {
    REQUIRE(fill_by_driver(*runtime, stream, data, value, bytes));
  }
  [[nodiscard]] bool has(const void* data, std::uint8_t value, std::size_t bytes) const {
    return simulator.peek(address_of(data), bytes) == std::vector<unsigned char>(bytes, value);
  }
  [[nodiscard]] std::uint64_t blocks_live() const {
    return pool.counters().blocks_allocated.current;
  }

  Stream stream;
  MemoryPool pool;

 private:
  [[nodiscard]] Stream test_stream() { return runtime->create_stream(Device::cuda(0)); }
};

}  // namespace berth::test
