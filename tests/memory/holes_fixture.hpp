// SPDX-License-Identifier: Apache-2.0
// An allocator whose free memory is holes of one granule.
#pragma once

#include <cstdint>
#include <vector>

#include "memory/allocator_fixture.hpp"
#include "support/device_bytes.hpp"

namespace berth::test {

/// Blocks of one granule each, every second of which is free again.
struct Holes : AllocatorFixture {
  explicit Holes(std::size_t count = 16) {
    for (std::size_t index = 0; index < count; ++index) row.push_back(allocate(kGranuleBytes, own));
    for (std::size_t index = 0; index < count; ++index) {
      if (index % 2 == 1)
        free(row[index]);
      else
        write(row[index], kGranuleBytes, static_cast<unsigned char>(index));
    }
  }
  ~Holes() {
    own.ref().sync();
    end();
  }

  void write(void* data, std::size_t bytes, unsigned char value) {
    const ContextScope scope(context);
    const auto address = static_cast<CUdeviceptr>(reinterpret_cast<std::uintptr_t>(data));
    driver.memset_d8_async(address, value, bytes, own.ref().native());
    simulator.run_all();
  }
  [[nodiscard]] bool holds(void* data, std::size_t bytes, unsigned char value) const {
    const auto address = static_cast<CUdeviceptr>(reinterpret_cast<std::uintptr_t>(data));
    return test::holds(simulator, address, bytes, value);
  }
  [[nodiscard]] bool walls_hold() const {
    bool all = true;
    for (std::size_t index = 0; index < row.size(); index += 2)
      all = all && holds(row[index], kGranuleBytes, static_cast<unsigned char>(index));
    return all;
  }

  Stream own = stream();
  std::vector<void*> row;
};

}  // namespace berth::test
