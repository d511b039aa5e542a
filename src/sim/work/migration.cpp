// SPDX-License-Identifier: Apache-2.0
#include "sim/work/migration.hpp"

#include "sim/state.hpp"
#include "sim/work/cost_model.hpp"

namespace berth::sim {
namespace {

/// Whether advice lets the device use pages without moving them.
bool is_used_remotely(const State& state, const Advice& advice, int slot) {
  const int ordinal = state.ordinal_of(slot);
  const CUmemLocation& preferred = advice.preferred;
  const bool prefers_this =
      preferred.type == CU_MEM_LOCATION_TYPE_DEVICE && preferred.id == ordinal;
  const bool prefers_other = preferred.type != CU_MEM_LOCATION_TYPE_INVALID && !prefers_this;
  return prefers_other || (ordinal >= 0 && (advice.accessed_by & device_bit(ordinal)) != 0);
}

/// Calls visit(address, bytes) for the managed memory that `work` uses on its device, if time is
/// virtual. Otherwise nothing depends on the place of memory.
template <class Visit>
void for_each_managed(State& state, const Work& work, const Visit& visit) {
  if (state.config.progress != Progress::timed) return;
  const auto visit_if_managed = [&](std::uint64_t address, std::uint64_t bytes) {
    const Range* const range = bytes != 0 ? state.addresses.find(address) : nullptr;
    if (range != nullptr && range->kind == RangeKind::managed && bytes <= range->end() - address)
      visit(address, bytes);
  };
  if (const auto* const kernel = std::get_if<KernelWork>(&work)) {
    for (const MemoryUse& use : kernel->uses) visit_if_managed(use.address, use.bytes);
  } else if (const auto* const fill = std::get_if<MemsetWork>(&work)) {
    // Rows that are closer share pages, or have none between them.
    const bool is_sparse = fill->rows > 1 && fill->pitch - fill->width >= ManagedAdvice::kPage;
    if (!is_sparse)
      return visit_if_managed(fill->destination, extent(fill->width, fill->rows, fill->pitch));
    for (std::size_t row = 0; row < fill->rows; ++row)
      visit_if_managed(fill->destination + row * fill->pitch, fill->width);
  }
}

}  // namespace

std::uint64_t migration_ns(State& state, int slot, const Work& work) {
  std::uint64_t ns = 0;
  for_each_managed(state, work, [&](std::uint64_t address, std::uint64_t bytes) {
    state.advice.visit(address, bytes, [&](const Advice& advice, std::uint64_t stretch) {
      if (advice.resident == slot) return;
      const Engine route = route_of_pages(advice.resident, slot);
      ns += is_used_remotely(state, advice, slot) ? route_ns(route, stretch)
                                                  : page_migration_ns(route, stretch);
    });
  });
  return ns;
}

void migrate(State& state, int slot, const Work& work) {
  for_each_managed(state, work, [&](std::uint64_t address, std::uint64_t bytes) {
    state.advice.change(address, bytes, [&](Advice& advice) {
      if (!is_used_remotely(state, advice, slot)) advice.resident = slot;
    });
  });
}

}  // namespace berth::sim
