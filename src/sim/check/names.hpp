// SPDX-License-Identifier: Apache-2.0
// How findings speak of streams and calls.
#pragma once

#include <string>

#include "sim/check/shadow_memory.hpp"
#include "sim/handle_table.hpp"

namespace berth::sim {

/// `callers_handle`: Stream::callers_handle.
std::string stream_name(Handle callers_handle);
std::string call_name(const CallSite& call);
/// Its kernel, or else its function: the same for each call of a loop.
std::string short_name(const CallSite& call);

}  // namespace berth::sim
