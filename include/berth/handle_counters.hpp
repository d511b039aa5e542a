// SPDX-License-Identifier: Apache-2.0
// The behavior of a HandlePool at its bound, and its counters.
#pragma once

#include <cstddef>
#include <cstdint>

#include "berth/cpp20.hpp"

namespace berth {

/// The behavior of HandlePool::acquire() if handles_max handles of a device are on lease.
enum class HandleShortage : std::uint8_t {
  wait,  ///< waits until a handle is returned; any of several waiting threads may get it
  fail,  ///< throws Exhausted
};

/// Counters over all devices.
struct HandleCounters {
  std::uint64_t created;  ///< handles that create() has made so far
  std::uint64_t binds;    ///< calls of bind() that succeeded, and set_workspace() with them
  std::size_t live;       ///< handles that exist
  std::size_t idle;       ///< existing handles that are not on lease
};

}  // namespace berth
