// SPDX-License-Identifier: Apache-2.0
#include "sim/check/pending_use.hpp"

#include <algorithm>
#include <vector>

#include "sim/state.hpp"

namespace berth::sim {
namespace {

/// Rows, as a copy has them; otherwise one.
struct Will {
  UseKind kind;
  std::uint64_t address;
  std::uint64_t width;
  std::uint64_t rows = 1;
  std::uint64_t pitch = 0;

  [[nodiscard]] std::uint64_t bytes() const { return width * rows; }
};

/// Also for the free of pool memory: what uses the memory later is another allocation.
template <class T>
std::vector<Will> uses_of(const T&) {
  return {};
}

std::vector<Will> uses_of(const ArriveWork& arrival) {
  if (arrival.range == nullptr) return {};  // of a node of a graph
  return {{UseKind::begins, arrival.range->start, arrival.range->bytes}};
}

std::vector<Will> uses_of(const CopyWork& copy) {
  std::vector<Will> uses;
  const bool reads_source = !copy.source_pageable && copy.staged == nullptr;
  if (reads_source)
    uses.push_back({UseKind::reads, copy.source, copy.width, copy.rows, copy.source_pitch});
  if (!copy.destination_pageable)
    uses.push_back(
        {UseKind::writes, copy.destination, copy.width, copy.rows, copy.destination_pitch});
  return uses;
}

std::vector<Will> uses_of(const FetchWork& fetch) {
  if (fetch.source_pageable) return {};
  return {{UseKind::reads, fetch.source, fetch.width, fetch.rows, fetch.source_pitch}};
}

std::vector<Will> uses_of(const MemsetWork& memset) {
  return {{UseKind::writes, memset.destination, memset.width, memset.rows, memset.pitch}};
}

std::vector<Will> uses_of(const KernelWork& kernel) {
  std::vector<Will> uses;
  for (const MemoryUse& use : kernel.uses)
    uses.push_back({use.writes ? UseKind::writes : UseKind::reads, use.address, use.bytes});
  return uses;
}

/// Without sums: a kernel's range may reach past the largest address.
bool overlaps(const Will& use, std::uint64_t start, std::uint64_t bytes) {
  for (std::uint64_t row = 0; row < use.rows; ++row) {
    const std::uint64_t address = use.address + row * use.pitch;
    if (address < start ? start - address < use.width : address - start < bytes) return true;
  }
  return false;
}

/// The pending operation for which `is_wanted` holds and that was submitted first; of what does not
/// run any more, because its context has faulted, none.
template <class Test>
std::optional<Use> find_first(State& state, std::uint64_t start, std::uint64_t bytes,
                              const Test& is_wanted) {
  const Operation* first = nullptr;
  Handle stream_of_first = 0;
  for (const Stream* stream : state.scheduler.busy()) {
    if (state.contexts.find(stream->context)->sticky != CUDA_SUCCESS) continue;
    bool is_found = false;
    stream->queue.for_each([&](const Operation& operation) {
      if (is_found || !is_wanted(operation.work)) return;
      is_found = true;
      if (first != nullptr && first->number < operation.number) return;
      first = &operation;
      stream_of_first = stream->caller_handle;
    });
  }
  if (first == nullptr) return std::nullopt;
  std::optional<Use> use = find_use(first->work, start, bytes);
  use->stamp = first->stamp;
  use->call = first->call;
  use->stream = stream_of_first;
  return use;
}

bool may_write(const Operation& operation, std::uint64_t start, std::uint64_t bytes) {
  if (std::holds_alternative<HostFunctionWork>(operation.work)) return true;
  if (const auto* write = std::get_if<WriteValueWork>(&operation.work))
    return overlaps({UseKind::writes, write->address, write->bytes}, start, bytes);
  const auto uses = std::visit([](const auto& work) { return uses_of(work); }, operation.work);
  return std::any_of(uses.begin(), uses.end(), [&](const Will& use) {
    return use.kind == UseKind::writes && overlaps(use, start, bytes);
  });
}

}  // namespace

std::optional<Use> find_use(const Work& work, std::uint64_t start, std::uint64_t bytes) {
  const auto uses = std::visit([](const auto& any) { return uses_of(any); }, work);
  const auto use = std::find_if(uses.begin(), uses.end(),
                                [&](const Will& will) { return overlaps(will, start, bytes); });
  if (use == uses.end()) return std::nullopt;
  return Use{{}, {}, 0, use->address, use->bytes(), use->kind};
}

std::uint64_t find_pending_write(const Stream& stream, std::uint64_t start, std::uint64_t bytes) {
  std::uint64_t found = 0;
  stream.queue.for_each([&](const Operation& operation) {
    if (may_write(operation, start, bytes)) found = operation.sequence;
  });
  return found;
}

std::optional<Use> find_pending_use(State& state, std::uint64_t start, std::uint64_t bytes) {
  return find_first(state, start, bytes,
                    [&](const Work& work) { return find_use(work, start, bytes).has_value(); });
}

std::optional<Use> find_pending_allocation(State& state, const Range& range) {
  return find_first(state, range.start, range.bytes, [&](const Work& work) {
    const auto* const arrival = std::get_if<ArriveWork>(&work);
    return arrival != nullptr && arrival->range->id == range.id;
  });
}

}  // namespace berth::sim
