// SPDX-License-Identifier: Apache-2.0
#include "sim/work/module_variables.hpp"

#include <algorithm>
#include <atomic>
#include <span>
#include <vector>

#include "base/format.hpp"
#include "base/standard_error.hpp"
#include "sim/memory/host_memory.hpp"
#include "sim/state.hpp"
#include "sim/work/work_memory.hpp"

namespace berth::sim {
namespace {

/// The memory of a variable at `address`; null if it ended with its context.
Range* find_variable_memory(State& state, std::uint64_t address) {
  Range* const range = state.addresses.find_start(address);
  return range != nullptr && range->is_variable ? range : nullptr;
}

std::uint64_t allocate_variable(State& state, const Context& context,
                                const ImageVariable& declared) {
  if (declared.is_managed)
    return reinterpret_cast<std::uint64_t>(make_managed_memory(state, context, declared.bytes));
  Device& device = state.devices[static_cast<std::size_t>(context.device)];
  return device.linear.allocate(state, context, declared.bytes);
}

void set_initial_value(State& state, const Range& range, const ImageVariable& declared) {
  for (std::uint64_t at = 0; at < range.bytes;) {
    const std::span<std::byte> stretch = bytes_of(state, range, at);
    std::ranges::fill(stretch, std::byte{0});
    at += stretch.size();
  }
  write(state, range.start, declared.value);
  static std::atomic<bool> is_told = false;
  if (declared.is_value_known || is_told.exchange(true, std::memory_order_relaxed)) return;
  write_to_stderr(
      format_text("simulated driver: variable {} begins as zeros: its initial value is no list of "
                  "numbers, and is not read\n",
                  declared.name));
}

}  // namespace

std::uint64_t address_in(State& state, const Context& context, ModuleVariable& variable) {
  std::uint64_t& place = variable.places[variable.declared.is_managed ? 0 : context.handle];
  if (place != 0 && find_variable_memory(state, place) != nullptr) return place;
  place = allocate_variable(state, context, variable.declared);
  if (place == 0) return 0;
  Range& range = *state.addresses.find_start(place);
  range.is_variable = true;
  set_initial_value(state, range, variable.declared);
  return place;
}

void release(State& state, const ModuleVariable& variable) {
  for (const auto& [context, place] : variable.places) {
    const Range* const range = find_variable_memory(state, place);
    if (range == nullptr) continue;
    if (range->is_host())
      unpin_host_memory(state, *range);
    else
      state.devices[static_cast<std::size_t>(range->device)].linear.release(state, *range);
  }
}

}  // namespace berth::sim
