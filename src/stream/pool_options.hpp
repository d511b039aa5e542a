// SPDX-License-Identifier: Apache-2.0
// Checks of options, for pools that are made later than their options are given.
#pragma once

#include "berth/event_pool.hpp"
#include "berth/stream_pool.hpp"

namespace berth {

// Errors  InvalidArgument.
void check_options(const EventPoolOptions& options);
void check_options(const StreamPoolOptions& options);

}  // namespace berth
