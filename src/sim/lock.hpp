// SPDX-License-Identifier: Apache-2.0
// The one lock of the simulated driver. It guards all state that is not thread-local. A call holds
// it for its whole duration, except while it waits.
#pragma once

#include "base/mutex.hpp"

namespace berth::sim {

inline constinit Mutex mutex;

}  // namespace berth::sim
