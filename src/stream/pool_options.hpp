// SPDX-License-Identifier: Apache-2.0
// Checks of the options of pools that are created later.
#pragma once

#include "berth/event_pool.hpp"
#include "berth/stream_pool.hpp"

namespace berth {

// Errors  InvalidArgument.
void check_options(const EventPoolOptions& options);
void check_options(const StreamPoolOptions& options);

}  // namespace berth
