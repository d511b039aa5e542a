// SPDX-License-Identifier: Apache-2.0
// Names of streams and calls in findings.
#pragma once

#include <string>

#include "sim/check/shadow_memory.hpp"
#include "sim/handle_table.hpp"

namespace berth::sim {

/// `caller_handle`: Stream::caller_handle.
std::string stream_name(Handle caller_handle);
std::string call_name(const CallSite& call);
/// Its kernel, or else its function: the same for each call of a loop.
std::string short_name(const CallSite& call);

}  // namespace berth::sim
