// SPDX-License-Identifier: Apache-2.0
#include "sim/work/device_function.hpp"

#include <algorithm>
#include <vector>

#include "sim/state.hpp"

namespace berth::sim {

const PtxKernel* Module::find(std::string_view kernel) const {
  if (!kernels) return nullptr;
  const auto found = std::find_if(kernels->begin(), kernels->end(),
                                  [&](const PtxKernel& known) { return known.name == kernel; });
  return found == kernels->end() ? nullptr : &*found;
}

ModuleVariable* Module::find_variable(std::string_view name) {
  if (!variables) return nullptr;
  const auto found =
      std::find_if(variables->begin(), variables->end(),
                   [&](const ModuleVariable& known) { return known.declared.name == name; });
  return found == variables->end() ? nullptr : &*found;
}

DeviceFunction& function_of(State& state, Handle module, std::string_view name) {
  const char* const kept = state.kernel_names.emplace(name).first->c_str();
  DeviceFunction* known = nullptr;
  state.functions.for_each([&](DeviceFunction& function) {
    if (function.module == module && function.name == kept) known = &function;
  });
  return known == nullptr ? state.functions.create(module, kept) : *known;
}

void unload(State& state, Handle module) {
  std::vector<Handle> ending;
  state.functions.for_each([&](const DeviceFunction& function) {
    if (function.module == module) ending.push_back(function.handle);
  });
  for (const Handle function : ending) state.functions.erase(function);
  if (const auto& variables = state.modules.find(module)->variables)
    for (const ModuleVariable& variable : *variables) release(state, variable);
  state.modules.erase(module);
}

}  // namespace berth::sim
