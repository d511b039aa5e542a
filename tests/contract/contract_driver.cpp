// SPDX-License-Identifier: Apache-2.0
#include "contract/contract_driver.hpp"

#include "base/env.hpp"
#include "runtime/driver_choice.hpp"
#include "sim/functions.hpp"

namespace berth::test {

Driver& contract_driver() {
  // Never closed: the driver's own exit handlers come after every owner.
  static auto* const opened =
      new OpenedDriver(open_driver(env("BERTH_DRIVER").value_or("sim"), {}));
  REQUIRE_MESSAGE(opened->driver->usable(), opened->driver->problem());
  return *opened->driver;
}

void* find_contract_function(const char* symbol, int version) {
  static const auto* const source = [] {
    const std::string& name = contract_driver().name();
    return new DriverSource(
        name == "sim"
            ? DriverSource{.name = name,
                           .resolve = [](const char* wanted, int) { return sim::resolve(wanted); },
                           .problem = {},
                           .library = {}}
            : open_driver_library(name, name == "cuda" ? "libcuda.so.1" : name));
  }();
  return source->resolve ? source->resolve(symbol, version) : nullptr;
}

}  // namespace berth::test
