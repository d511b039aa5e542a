// SPDX-License-Identifier: Apache-2.0
#include "sim/work/demand.hpp"

#include <optional>

#include "sim/state.hpp"
#include "sim/work/migration.hpp"

namespace berth::sim {
namespace {

/// The device that has the memory at `address`; nullopt for host memory.
std::optional<int> device_of(State& state, std::uint64_t address) {
  const Range* range = state.addresses.find(address);
  if (range == nullptr) return std::nullopt;
  if (range->kind == RangeKind::managed) return state.advice.device_of(address);
  if (range->is_host()) return std::nullopt;
  return range->device;
}

Demand demand(State&, const WaitWork&) {
  return {};
}
Demand demand(State&, const RecordWork&) {
  return {};
}
Demand demand(State&, const ArriveWork&) {
  return {};
}
Demand demand(State&, const DepartWork&) {
  return {};
}
Demand demand(State&, const FetchWork&) {
  return {};
}
Demand demand(State&, const WaitValueWork&) {
  return {};
}
Demand demand(State&, const WriteValueWork&) {
  return {};
}
Demand demand(State& state, const PrefetchWork& prefetch) {
  Demand own{};
  const auto add = [&](const Advice& advice, std::uint64_t bytes) {
    if (advice.resident == prefetch.slot) return;
    const Engine route = route_of_pages(advice.resident, prefetch.slot);
    if (own.engine == Engine::none || route != Engine::device_to_device) own.engine = route;
    own.ns += route_ns(route, bytes);
  };
  state.advice.visit(prefetch.address, prefetch.bytes, add);
  if (own.ns != 0) own.ns += transfer_ns(own.engine, 0);
  return own;
}
Demand demand(State&, const HostFunctionWork&) {
  return {Engine::none, kHostFunctionNs};
}
Demand demand(State&, const KernelWork& kernel) {
  return {Engine::processors, kernel.duration_ns};
}
Demand demand(State&, const MemsetWork& memset) {
  return {Engine::processors, transfer_ns(Engine::processors, memset.total() / 2)};
}
Demand demand(State& state, const CopyWork& copy) {
  const std::optional<int> to = device_of(state, copy.destination);
  const std::optional<int> from = device_of(state, copy.source);
  if (!to && !from) return {Engine::none, host_copy_ns(copy.total())};
  const auto by = [&](Engine engine) -> Demand {
    const bool device_accessible = state.config.pageable_access == PageableAccess::host_page_tables;
    if (!device_accessible && (copy.destination_pageable || copy.source_pageable))
      return {engine, pageable_transfer_ns(copy.total())};
    return {engine, copy.is_further ? further_transfer_ns(engine, copy.total())
                                    : transfer_ns(engine, copy.total())};
  };
  if (to && from) return by(*to == *from ? Engine::processors : Engine::device_to_device);
  return by(to ? Engine::host_to_device : Engine::device_to_host);
}

}  // namespace

Demand demand_of(State& state, int slot, const Operation& operation) {
  Demand own = std::visit([&](const auto& work) { return demand(state, work); }, operation.work);
  own.ns += migration_ns(state, slot, operation.work);
  return own;
}

}  // namespace berth::sim
