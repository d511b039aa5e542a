// SPDX-License-Identifier: Apache-2.0
// The one lock of the simulated driver. It guards everything but what a thread owns itself. It is
// held for the length of a call, and let go of only to wait.
#pragma once

#include "base/mutex.hpp"

namespace berth::sim {

inline constinit Mutex mutex;

}  // namespace berth::sim
