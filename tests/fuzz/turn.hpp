// SPDX-License-Identifier: Apache-2.0
// One call: what decides it, and what its parameters, drawn from the first to the last, tell each
// other. A kind of parameter has draw(Turn&); what that gives has value(), for the function, and
// after(Turn&, bool succeeded), which checks what the function wrote and remembers what it made.
#pragma once

#include <cuda.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <type_traits>

#include "fuzz/input.hpp"
#include "fuzz/things.hpp"
#include "sim/simulator.hpp"

namespace berth::fuzz {

/// In one call, at most.
inline constexpr std::size_t kCopiesMax = 2;

struct Turn {
  Input bytes;  ///< decides
  Things& things;
  sim::Simulator& simulator;
  const sim::Config& config;  ///< the simulator's
  bool real_time;  ///< whether there may be what takes some: host functions, waits for values
  std::uint64_t natural = 0;  ///< what is left of the memory that was named last; 0: unknown
  std::optional<std::uint64_t> room = {};  ///< of pageable memory: nothing may touch more of it
  std::uint64_t size = 0;                  ///< that was drawn
  std::size_t capacity = 0;                ///< of the array or text that was drawn
  std::array<std::uint64_t, kCopiesMax> sources = {};  ///< of a batch
  std::array<std::uint64_t, kCopiesMax> sizes = {};
  const CUgraphNode* borrowed = nullptr;  ///< an array of the simulator's

  [[nodiscard]] std::uint64_t granule() const { return config.granularity; }
};

/// A number, handle or address as whatever the function takes.
struct Bits {
  std::uint64_t bits;

  template <class T>
  operator T() const {  // NOLINT(google-explicit-constructor): converting is what it is for
    if constexpr (std::is_pointer_v<T>)
      return reinterpret_cast<T>(bits);
    else
      return static_cast<T>(bits);
  }
};

/// From here on a byte is hostile.
inline constexpr std::uint8_t kHostile = 0xC0;
/// From here on it takes away a pointer.
inline constexpr std::uint8_t kNull = 0xF0;

}  // namespace berth::fuzz
