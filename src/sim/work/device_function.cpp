// SPDX-License-Identifier: Apache-2.0
#include "sim/work/device_function.hpp"

#include <algorithm>
#include <cctype>
#include <vector>

#include "sim/state.hpp"

namespace berth::sim {
namespace {

/// A character of a PTX identifier.
bool continues_name(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '$';
}

bool is_space(char c) {
  return std::isspace(static_cast<unsigned char>(c)) != 0;
}

}  // namespace

// ".entry" and the name: PTX ISA, "Kernel Function Directives: .entry".
bool Module::may_have(std::string_view kernel) const {
  if (!ptx) return true;
  constexpr std::string_view directive = ".entry";
  const std::string_view text = *ptx;
  for (std::size_t at = text.find(directive); at != std::string_view::npos;
       at = text.find(directive, at)) {
    at += directive.size();
    const auto* const name = std::find_if_not(text.begin() + at, text.end(), is_space);
    const auto* const end = std::find_if_not(name, text.end(), continues_name);
    if (std::string_view(name, static_cast<std::size_t>(end - name)) == kernel) return true;
  }
  return false;
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
  state.modules.erase(module);
}

}  // namespace berth::sim
