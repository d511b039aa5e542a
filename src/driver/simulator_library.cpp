// SPDX-License-Identifier: Apache-2.0
// Finds libberth_sim. A process must have one simulator, however its parts are linked: the
// look-alikes and a test's Simulator find it through the loader, which loads a file once.
#include "base/format.hpp"
#include "driver/driver_source.hpp"
#include "driver/own_library.hpp"
#include "driver/sim_abi.hpp"

// Null unless the program contains libberth_sim or has linked it.
#pragma weak berth_sim_resolve

namespace berth {
namespace {

using Resolve = decltype(berth_sim_resolve);

constexpr const char* kLibrary = "libberth_sim.so.0";

DriverSource source_of(Resolve* resolve) {
  return {.name = "sim",
          .resolve = [resolve](const char* symbol, int) { return resolve(symbol); },
          .problem = {},
          .library = {}};
}

}  // namespace

DriverSource open_simulator_library() {
  if (&berth_sim_resolve != nullptr) return source_of(&berth_sim_resolve);
  DriverSource missing{.name = "sim", .resolve = {}, .problem = {}, .library = {}};
  if (void* const found = find_in_own_library(kLibrary, "berth_sim_resolve", missing.problem))
    return source_of(reinterpret_cast<Resolve*>(found));
  missing.problem = format_text(
      "the simulated driver, {}, was not found beside libberth or by the "
      "loader{}",
      kLibrary, missing.problem);
  return missing;
}

}  // namespace berth
