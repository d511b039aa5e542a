// SPDX-License-Identifier: Apache-2.0
// The boundary that no exception crosses: every function of the C ABI runs its body in guarded().
#pragma once

#include <cstdint>
#include <stdexcept>

#include "berth/berth.h"

namespace berth::capi {

/// A function of the program returned a failure: BERTH_CALLBACK_FAILED.
struct CallbackFailed : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// The status of the exception that is being handled; its message and driver code become the
/// thread's last failure. Only inside a catch block.
berth_status translate_exception() noexcept;

/// The number of failures of the calling thread so far, those of berth_last_error_set() too.
std::uint64_t failure_count() noexcept;

/// Runs `body` and returns BERTH_OK, or the status of its exception.
template <class Body>
berth_status guarded(const Body& body) noexcept {
  try {
    body();
    return BERTH_OK;
  } catch (...) {
    return translate_exception();
  }
}

}  // namespace berth::capi
