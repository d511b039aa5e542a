// SPDX-License-Identifier: Apache-2.0
// The common part of all fills: checks the arguments of a caller. Guarded by sim::mutex.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>

#include "sim/state.hpp"

namespace berth::sim {

/// The arguments of a fill; `columns` counts values, not bytes.
struct Fill {
  CUdeviceptr destination;
  std::size_t pitch;
  std::uint32_t value;
  unsigned value_bytes;
  std::size_t columns;
  std::size_t rows;
};

struct KnownFill {
  MemsetWork work;
  bool on_host;
};

/// Checks a fill of at least one byte, for a stream of `context`.
CUresult look_up(State& state, const Context& context, const Fill& fill, KnownFill& known);

}  // namespace berth::sim
