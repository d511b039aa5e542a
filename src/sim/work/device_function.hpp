// SPDX-License-Identifier: Apache-2.0
// Modules and the functions in them that cuLaunchKernel takes. Device code is not read, except for
// the names of kernels where it is PTX: a name is all that there is of a kernel. Guarded by
// sim::mutex.
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

  /// Whether it may have a kernel of that name: known only of PTX.
  [[nodiscard]] bool may_have(std::string_view kernel) const;

  Handle handle;
  Handle context;
  std::optional<std::string> ptx;
};

struct DeviceFunction {
  DeviceFunction(Handle handle_, Handle module_, const char* name_)
      : handle(handle_), module(module_), name(name_) {}

  Handle handle;
  Handle module;     ///< 0: a runtime above the driver has named it
  const char* name;  ///< kept in State::kernel_names
};

using Modules = HandleTable<Module, HandleKind::module>;
using DeviceFunctions = HandleTable<DeviceFunction, HandleKind::device_function>;

/// The function of that name; the same one each time.
DeviceFunction& function_of(State& state, Handle module, std::string_view name);
/// Ends the module and its functions. Work that was launched goes on.
void unload(State& state, Handle module);

}  // namespace berth::sim
