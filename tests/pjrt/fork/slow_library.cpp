// SPDX-License-Identifier: Apache-2.0
// In the place of libberth_pjrt: a library whose loading takes as long as the test wants.
#include <cstdlib>
#include <stdexcept>
#include <unistd.h>

#include "device/pjrt_library.hpp"

namespace {

int descriptor(const char* variable) {
  const char* const number = std::getenv(variable);
  return number == nullptr ? -1 : std::atoi(number);
}

[[gnu::constructor]] void wait_for_test() {
  char byte = 0;
  if (write(descriptor("BERTH_TEST_LOADING"), &byte, 1) != 1) std::abort();
  if (read(descriptor("BERTH_TEST_MAY_LOAD"), &byte, 1) != 1) std::abort();
}

}  // namespace

berth::DeviceBackend* berth_pjrt_open(berth::PjrtRequest* request) noexcept {
  request->failure = std::make_exception_ptr(std::runtime_error("opened"));
  return nullptr;
}
