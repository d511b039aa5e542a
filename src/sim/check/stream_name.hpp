// SPDX-License-Identifier: Apache-2.0
// How findings speak of streams.
#pragma once

#include <string>

#include "sim/handle_table.hpp"

namespace berth::sim {

/// `callers_handle`: Stream::callers_handle.
std::string stream_name(Handle callers_handle);

}  // namespace berth::sim
