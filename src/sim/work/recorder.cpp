// SPDX-License-Identifier: Apache-2.0
#include "sim/work/recorder.hpp"

#include <cstddef>
#include <optional>

#include "sim/state.hpp"
#include "sim/work/demand.hpp"

namespace berth::sim {
namespace {

struct Shown {
  WorkKind kind;
  std::size_t bytes = 0;
};

/// Work that only orders, or whose time is that of the next operation.
template <class T>
std::optional<Shown> shown(const T&, Engine) {
  return std::nullopt;
}
std::optional<Shown> shown(const KernelWork&, Engine) {
  return Shown{WorkKind::kernel};
}
std::optional<Shown> shown(const HostFunctionWork&, Engine) {
  return Shown{WorkKind::host_function};
}
std::optional<Shown> shown(const MemsetWork& memset, Engine) {
  return Shown{WorkKind::fill, memset.total()};
}
std::optional<Shown> shown(const CopyWork& copy, Engine engine) {
  switch (engine) {
    case Engine::host_to_device:
      return Shown{WorkKind::copy_to_device, copy.total()};
    case Engine::device_to_host:
      return Shown{WorkKind::copy_to_host, copy.total()};
    case Engine::device_to_device:
      return Shown{WorkKind::copy_between_devices, copy.total()};
    case Engine::processors:
      return Shown{WorkKind::copy_within_device, copy.total()};
    case Engine::none:
    case Engine::count:
      break;
  }
  return Shown{WorkKind::copy_on_host, copy.total()};
}

const char* name_of(const Operation& operation) {
  if (operation.call.kernel != nullptr) return operation.call.kernel;
  const bool is_kernel = std::holds_alternative<KernelWork>(operation.work);
  if (is_kernel) return function_name(Function::count);
  const bool is_of_graph = operation.call.launch != 0;
  return function_name(is_of_graph ? Function::k_cuGraphLaunch : operation.call.function);
}

}  // namespace

void Recorder::add(State& state, const Stream& stream, const Operation& operation,
                   std::uint64_t begin_ns) {
  const Engine engine = demand_of(state, stream.device, operation).engine;
  const auto entry =
      std::visit([&](const auto& work) { return shown(work, engine); }, operation.work);
  if (!entry) return;
  entries_.push_back({.name = name_of(operation),
                      .kind = entry->kind,
                      .device = stream.device,
                      .stream = reinterpret_cast<CUstream>(stream.caller_handle),
                      .bytes = entry->bytes,
                      .begin_ns = begin_ns,
                      .end_ns = state.scheduler.now_ns()});
}

void Recorder::add_host_wait(State& state, const CallSite& call, std::uint64_t begin_ns) {
  if (!on_ || state.scheduler.now_ns() == begin_ns) return;
  entries_.push_back({.name = function_name(call.function),
                      .kind = WorkKind::host_wait,
                      .device = -1,
                      .stream = nullptr,
                      .bytes = 0,
                      .begin_ns = begin_ns,
                      .end_ns = state.scheduler.now_ns()});
}

}  // namespace berth::sim
