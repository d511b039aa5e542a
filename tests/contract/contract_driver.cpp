// SPDX-License-Identifier: Apache-2.0
#include "contract/contract_driver.hpp"

#include "base/env.hpp"
#include "runtime/driver_choice.hpp"

namespace berth::test {

Driver& contract_driver() {
  // Never closed: the driver's own exit handlers come after every owner.
  static auto* const opened =
      new OpenedDriver(open_driver(env("BERTH_DRIVER").value_or("sim"), {}));
  REQUIRE_MESSAGE(opened->driver->usable(), opened->driver->problem());
  return *opened->driver;
}

void* find_contract_function(const char* symbol, int version) {
  return contract_driver().find(symbol, version);
}

}  // namespace berth::test
