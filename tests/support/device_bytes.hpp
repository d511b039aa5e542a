// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda.h>

#include <cstddef>
#include <vector>

#include "sim/simulator.hpp"

namespace berth::test {

/// Whether each byte of a range of device memory has this value now, even if work is pending.
inline bool holds(const sim::Simulator& simulator, CUdeviceptr address, std::size_t bytes,
                  unsigned char value) {
  return simulator.peek(address, bytes) == std::vector<unsigned char>(bytes, value);
}

}  // namespace berth::test
