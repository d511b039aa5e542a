// SPDX-License-Identifier: Apache-2.0
// Modules and their functions for cuLaunchKernel. Device code is not read, except for kernel names
// in PTX: a kernel is only a name. Guarded by sim::mutex.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "sim/handle_table.hpp"

namespace berth::sim {

struct State;

struct Module {
  Module(Handle handle_, Handle context_, std::optional<std::string> ptx_)
      : handle(handle_), context(context_), ptx(std::move(ptx_)) {}

  /// Whether it may contain a kernel of that name: known only for PTX.
  [[nodiscard]] bool may_have(std::string_view kernel) const;
  [[nodiscard]] bool is_library() const { return context == 0; }

  Handle handle;
  Handle context;  ///< 0: a library, which is of none
  std::optional<std::string> ptx;
};

struct DeviceFunction {
  DeviceFunction(Handle handle_, Handle module_, const char* name_)
      : handle(handle_), module(module_), name(name_) {}

  Handle handle;
  Handle module;     ///< 0: named by a runtime above the driver
  const char* name;  ///< kept in State::kernel_names
};

using Modules = HandleTable<Module, HandleKind::module>;
using DeviceFunctions = HandleTable<DeviceFunction, HandleKind::device_function>;

/// The function of that name; the same one for each call.
DeviceFunction& function_of(State& state, Handle module, std::string_view name);
/// Removes the module and its functions. Launched work continues.
void unload(State& state, Handle module);

}  // namespace berth::sim
