// SPDX-License-Identifier: Apache-2.0
#include "sim/pending_use.hpp"

#include <vector>

#include "sim/state.hpp"

namespace berth::sim {
namespace {

struct Will {
  UseKind kind;
  std::uint64_t address;
  std::uint64_t bytes;
};

/// Also for the allocations and frees of pools: they are no accesses.
template <class T>
std::vector<Will> uses_of(const T&) {
  return {};
}

std::vector<Will> uses_of(const CopyWork& copy) {
  std::vector<Will> uses;
  const bool reads_ours = !copy.source_pageable && copy.staged == nullptr;
  if (reads_ours) uses.push_back({UseKind::reads, copy.source, copy.bytes});
  if (!copy.destination_pageable) uses.push_back({UseKind::writes, copy.destination, copy.bytes});
  return uses;
}

std::vector<Will> uses_of(const MemsetWork& memset) {
  return {{UseKind::writes, memset.destination, memset.bytes}};
}

std::vector<Will> uses_of(const KernelWork& kernel) {
  std::vector<Will> uses;
  for (const KernelUse& use : kernel.uses)
    uses.push_back({use.writes ? UseKind::writes : UseKind::reads, use.address, use.bytes});
  return uses;
}

/// Without sums: a kernel's range may reach past the largest address.
bool overlaps(const Will& use, std::uint64_t start, std::uint64_t bytes) {
  return use.address < start ? start - use.address < use.bytes : use.address - start < bytes;
}

std::optional<Use> find_use(const Stream& stream, std::uint64_t start, std::uint64_t bytes) {
  std::optional<Use> found;
  stream.queue.for_each([&](const Operation& operation) {
    const auto uses = std::visit([](const auto& work) { return uses_of(work); }, operation.work);
    for (const Will& use : uses)
      if (!found && overlaps(use, start, bytes))
        found = Use{operation.stamp, operation.call, stream.callers_handle,
                    use.address,     use.bytes,      use.kind};
  });
  return found;
}

}  // namespace

std::optional<Use> find_pending_use(State& state, std::uint64_t start, std::uint64_t bytes) {
  std::optional<Use> found;
  state.streams.for_each([&](const Stream& stream) {
    const bool runs = state.contexts.find(stream.context)->sticky == CUDA_SUCCESS;
    if (runs && !found) found = find_use(stream, start, bytes);
  });
  return found;
}

}  // namespace berth::sim
