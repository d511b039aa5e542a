// SPDX-License-Identifier: Apache-2.0
// Modules and their functions for cuLaunchKernel. Device code is not read, except for variables,
// and in PTX for the names and parameters of kernels. Guarded by sim::mutex.
#pragma once

#include <cuda.h>

#include <map>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/handle_table.hpp"
#include "sim/work/module_image.hpp"

namespace berth::sim {

struct State;

struct Module {
  Module(Handle handle_, Handle context_, Image image)
      : handle(handle_),
        context(context_),
        kernels(std::move(image.kernels)),
        variables(std::move(image.variables)) {}

  /// The kernel of that name; null if there is none, and if the module is not of PTX.
  [[nodiscard]] const PtxKernel* find(std::string_view kernel) const;
  [[nodiscard]] bool may_have(std::string_view kernel) const {
    return !kernels || find(kernel) != nullptr;
  }
  /// The variable of that name; null if there is none.
  [[nodiscard]] ModuleVariable* find_variable(std::string_view name);
  [[nodiscard]] bool is_library() const { return context == 0; }

  Handle handle;
  Handle context;                                 ///< 0: a library, which is of none
  std::optional<std::vector<PtxKernel>> kernels;  ///< see Image, as for the next
  std::optional<std::vector<ModuleVariable>> variables;
};

struct DeviceFunction {
  DeviceFunction(Handle handle_, Handle module_, const char* name_)
      : handle(handle_), module(module_), name(name_) {}

  Handle handle;
  Handle module;     ///< 0: named by a runtime above the driver
  const char* name;  ///< kept in State::kernel_names
  /// What the program has set, by the slot of the device.
  std::map<std::pair<int, CUfunction_attribute>, int> settings;
};

using Modules = HandleTable<Module, HandleKind::module>;
using DeviceFunctions = HandleTable<DeviceFunction, HandleKind::device_function>;

/// The function of that name; the same one for each call.
DeviceFunction& function_of(State& state, Handle module, std::string_view name);
/// Removes the module and its functions. Launched work continues.
void unload(State& state, Handle module);

}  // namespace berth::sim
