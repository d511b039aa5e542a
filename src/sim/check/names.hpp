// SPDX-License-Identifier: Apache-2.0
// Names of streams, calls and memory in findings.
#pragma once

#include <cstdint>
#include <string>

#include "sim/check/shadow_memory.hpp"
#include "sim/handle_table.hpp"

namespace berth::sim {

struct State;

/// `caller_handle`: Stream::caller_handle.
std::string stream_name(Handle caller_handle);
/// "cuMemcpyAsync (call 7)"; of the work of a graph "the copy of cuMemcpyAsync (call 7) in graph
/// 0x7000000000000010, launched by cuGraphLaunch (call 9),".
std::string call_name(const CallSite& call);
/// The same without the graph: "the copy of cuMemcpyAsync (call 7)".
std::string node_name(const CallSite& call);
/// Of the work of a graph: "in graph 0x7000000000000010, launched by cuGraphLaunch (call 9)".
std::string launch_name(const CallSite& call);
/// Its kernel, or else its function: the same for each call of a loop.
std::string short_name(const CallSite& call);
/// "64 B at 0x7f0000000000 (batch)".
std::string memory_text(const State& state, std::uint64_t address, std::uint64_t bytes);

}  // namespace berth::sim
