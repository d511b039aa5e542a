// SPDX-License-Identifier: Apache-2.0
// The entry points of one CUDA driver, as plain function pointers. A null pointer is a function
// that the driver lacks.
#pragma once

#include <array>
#include <cstddef>

#include "driver/driver_functions.hpp"
#include "driver/sim_abi.hpp"

namespace berth {

struct DriverTable {
#define BERTH_MEMBER(member, symbol, version, need) decltype(&::symbol) member = nullptr;
  BERTH_DRIVER_FUNCTIONS(BERTH_MEMBER)
#undef BERTH_MEMBER
};

/// The functions that only the simulated driver has; all null on hardware.
struct SimTable {
#define BERTH_MEMBER(member, symbol, type) sim_abi::type* member = nullptr;
  BERTH_SIM_ONLY_FUNCTIONS(BERTH_MEMBER)
#undef BERTH_MEMBER
};

/// One enumerator for each function, in the order of the list: the index of its call counter.
enum class DriverCall : std::size_t {
#define BERTH_ENUMERATOR(member, symbol, version, need) member,
  BERTH_DRIVER_FUNCTIONS(BERTH_ENUMERATOR)
#undef BERTH_ENUMERATOR
};

/// NVIDIA's names, indexed by DriverCall.
inline constexpr std::array kDriverCallNames = {
#define BERTH_NAME(member, symbol, version, need) #symbol,
    BERTH_DRIVER_FUNCTIONS(BERTH_NAME)
#undef BERTH_NAME
};

inline constexpr std::size_t kDriverCallCount = kDriverCallNames.size();

}  // namespace berth
