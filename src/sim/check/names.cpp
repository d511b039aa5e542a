// SPDX-License-Identifier: Apache-2.0
#include "sim/check/names.hpp"

#include "base/demangled.hpp"
#include "base/format.hpp"
#include "sim/state.hpp"

namespace berth::sim {
namespace {

/// Of a kernel, as its source has it.
std::string kernel_name(const char* name) {
  const std::string readable = demangled(name);
  return readable.empty() ? name : readable;
}

}  // namespace

std::string stream_name(Handle caller_handle) {
  switch (caller_handle) {
    case kLegacyStream:
      return "the legacy stream";
    case kPerThreadStream:
      return "a thread's default stream";
    default:
      return format_text("stream {:#x}", caller_handle);
  }
}

std::string node_name(const CallSite& call) {
  const char* const function = function_name(call.function);
  const bool is_named = call.kernel != nullptr || call.function == Function::count;
  if (call.node != nullptr && !is_named)
    return format_text("the {} of {} (call {})", call.node, function, call.number);
  if (call.kernel == nullptr) return format_text("{} (call {})", function, call.number);
  if (call.function == Function::count)
    return format_text("{} (call {})", kernel_name(call.kernel), call.number);
  return format_text("{} of {} (call {})", kernel_name(call.kernel), function, call.number);
}

std::string launch_name(const CallSite& call) {
  return format_text("in graph {:#x}, launched by cuGraphLaunch (call {})", call.graph,
                     call.launch);
}

std::string call_name(const CallSite& call) {
  if (call.launch == 0) return node_name(call);
  return format_text("{} {},", node_name(call), launch_name(call));
}

std::string short_name(const CallSite& call) {
  return call.kernel == nullptr ? function_name(call.function) : kernel_name(call.kernel);
}

std::string memory_text(const State& state, std::uint64_t address, std::uint64_t bytes) {
  return format_text("{} B at {:#x}{}", bytes, address,
                     state.memory_names.describe(address, bytes));
}

}  // namespace berth::sim
