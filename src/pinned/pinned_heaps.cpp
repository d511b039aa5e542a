// SPDX-License-Identifier: Apache-2.0
// The choice of the heap for a request, and the cooperation of heaps.
#include "pinned/pinned_heaps.hpp"

#include <algorithm>

#include "berth/bytes.hpp"

#include "base/check.hpp"
#include "base/counted.hpp"
#include "base/format.hpp"
#include "device/observe_devices.hpp"
#include "memory/memory_errors.hpp"
#include "pinned/pinned_owners.hpp"
#include "stream/capture.hpp"
#include "stream/wait.hpp"

namespace berth {
namespace {

constexpr const char* kName = "pinned";

std::string heap_name(PinnedKind kind, std::optional<int> node, bool is_one_of_many) {
  if (kind == PinnedKind::write_combined) return std::string(kName) + "/write_combined";
  if (!is_one_of_many) return kName;
  return node ? format_text("{}/node{}", kName, *node) : std::string(kName) + "/any_node";
}

}  // namespace

PinnedHeaps::Heap::Heap(PinnedHeaps& heaps, PinnedKind of_kind, std::optional<int> of_node,
                        std::string name)
    : kind(of_kind),
      node(of_node),
      budget(MemoryBudget::Limits{}, &heaps.budget_),
      allocator(heaps.driver(),
                {.name = std::move(name),
                 .budget = budget,
                 .is_host_memory = true,
                 .slack_max = heaps.options_.slack_max,
                 .others =
                     [&heaps, this](std::size_t bytes, CachingAllocator::HostWait wait) {
                       return heaps.release_others(*this, bytes, wait);
                     },
                 .events = [&heaps](DeviceContext& context) -> EventPool& {
                   return heaps.events_.of(context);
                 }},
                [&](BlockHeap&) {
                  auto made = std::make_unique<PinnedSegments>(
                      heaps.registry_, PinnedSegments::Options{
                                           .segment_bytes = heaps.options_.segment_bytes,
                                           .prefault_threads = heaps.options_.prefault_threads,
                                           .write_combined = kind == PinnedKind::write_combined,
                                           .node = node,
                                       });
                  segments = made.get();
                  return made;
                }) {}

PinnedHeaps::PinnedHeaps(const DeviceRegistry& registry, const PinnedAllocatorOptions& options)
    : registry_(registry),
      options_(options),
      bytes_cached_max_(options.bytes_cached_max.value_or(MemoryBudget::kNoLimit)),
      events_(registry),
      is_simulated_(events_.driver().is_simulated()),
      budget_({.max = options.bytes_reserved_max.value_or(MemoryBudget::kNoLimit)}),
      registrations_(registry, events_),
      background_([this] { run_in_background(); }) {
  add_pinned_owner(*this);
}

PinnedHeaps::~PinnedHeaps() {
  remove_pinned_owner(*this);
  background_.end();
  for_each([this](Heap& heap) { remove_observer_of_all(registry_, heap.allocator); });
  const MemoryCounters left = counters();
  if (left.blocks_in_graphs.current > 0) wait_for_launches();
  const std::uint64_t live = left.blocks_allocated.current;
  if (live == 0) return;
  driver().report(Severity::warning, [&] {
    return format_text("pinned: {} of {} {} still live when the allocator was destroyed",
                       counted(live, "allocation"), format_bytes(left.bytes_requested.current),
                       were(live));
  });
}

void PinnedHeaps::wait_for_launches() noexcept {
  for (int ordinal = 0; ordinal < registry_.count(); ++ordinal) {
    DeviceContext& context = registry_.context(Device::cuda(ordinal));
    if (!context.is_used()) continue;
    try {
      if (may_be_capturing(context)) continue;  // the wait would break the capture
      const ContextScope scope(context);
      wait_for(context);
    } catch (const std::exception& error) {
      driver().report(Severity::warning, "pinned: launches of graphs are not waited for", error);
    }
  }
}

const std::vector<std::optional<int>>& PinnedHeaps::nodes() {
  if (nodes_) return *nodes_;
  std::vector<std::optional<int>> nodes;
  for (int ordinal = 0; ordinal < registry_.count(); ++ordinal) {
    const bool counts = options_.prefault_threads > 0;  // the driver binds nothing
    nodes.push_back(counts ? registry_.facts(Device::cuda(ordinal)).host_numa_node : std::nullopt);
  }
  const bool differ = std::ranges::adjacent_find(nodes, std::ranges::not_equal_to()) != nodes.end();
  differs_ = differ ? Differs::yes : Differs::no;
  return nodes_.emplace(std::move(nodes));
}

PinnedHeaps::Heap& PinnedHeaps::heap_for(const PinnedOptions& options) {
  origin_.require_here(kName);
  if (options.kind == PinnedKind::registered) {
    throw InvalidArgument(
        "pinned: PinnedKind::registered is memory of the caller's own, which register_memory() "
        "pins; accepted: portable, write_combined");
  }
  if (options.kind > PinnedKind::registered) {
    throw InvalidArgument(
        format_text("pinned: there is no PinnedKind {}; accepted: portable, write_combined",
                    static_cast<int>(options.kind)));
  }
  if (options.near && options.near->is_cpu()) {
    throw InvalidArgument(
        "pinned: PinnedOptions::near is cpu; accepted: a CUDA device, or nullopt for the calling "
        "thread's current one");
  }
  std::optional<Device> near;
  if (options.near) near = registry_.resolve(*options.near);
  if (options.kind == PinnedKind::portable) {
    if (Heap* const only = only_.load(std::memory_order_acquire)) return *only;
  }
  if (!near && differs()) near = registry_.current();
  const auto ordinal = static_cast<std::size_t>(near ? near->ordinal() : 0);
  if (options.kind == PinnedKind::portable && ordinal < kDevicesMax) {
    if (Heap* const heap = near_[ordinal].load(std::memory_order_acquire)) return *heap;
  }
  const MutexLock lock(mutex_);
  if (options.kind == PinnedKind::write_combined) return find_or_make(options.kind, std::nullopt);
  BERTH_CHECK(ordinal < nodes().size());
  Heap& heap = find_or_make(options.kind, nodes()[ordinal]);
  if (ordinal < kDevicesMax) near_[ordinal].store(&heap, std::memory_order_release);
  if (differs_ == Differs::no) only_.store(&heap, std::memory_order_release);
  return heap;
}

bool PinnedHeaps::differs() {
  if (differs_ == Differs::unknown) {
    const MutexLock lock(mutex_);
    nodes();
  }
  return differs_ == Differs::yes;
}

PinnedHeaps::Heap& PinnedHeaps::find_or_make(PinnedKind kind, std::optional<int> node) {
  const std::size_t count = count_.load(std::memory_order_relaxed);
  for (std::size_t number = 0; number < count; ++number) {
    if (heaps_[number]->kind == kind && heaps_[number]->node == node) return *heaps_[number];
  }
  BERTH_CHECK(count < kHeapsMax);
  heaps_[count] =
      std::make_unique<Heap>(*this, kind, node, heap_name(kind, node, differs_ == Differs::yes));
  Heap& heap = *heaps_[count];
  try {
    add_observer_of_all(registry_, heap.allocator);
  } catch (...) {
    heaps_[count] = nullptr;
    throw;
  }
  count_.store(count + 1, std::memory_order_release);
  return heap;
}

void* PinnedHeaps::allocate_slow(std::size_t bytes, const PinnedOptions& options) {
  Heap& heap = heap_for(options);
  void* data = heap.allocator.allocate_cached(bytes, std::nullopt);
  if (data == nullptr) {
    data = heap.allocator.allocate_slow(bytes, std::nullopt, options.may_wait);
    if (options_.low_water_bytes > 0) request_growth(heap);
  }
  notify_simulator(data, bytes);
  return data;
}

PinnedHeaps::Heap* PinnedHeaps::free_in_heap(void* data, Heap* freed) {
  if (!origin_.is_here()) return nullptr;
  for_each([&](Heap& heap) {
    if (freed == nullptr && heap.allocator.try_cache_free(data)) freed = &heap;
  });
  if (freed == nullptr) {
    freed = &require_owner(data, "free");
    freed->allocator.deallocate_slow(data);
  }
  return freed;
}

PinnedHeaps::Heap* PinnedHeaps::owner_of(const void* data) const {
  Heap* owner = nullptr;
  for_each([&](Heap& heap) {
    if (owner == nullptr && heap.allocator.owns(data)) owner = &heap;
  });
  return owner;
}

PinnedHeaps::Heap& PinnedHeaps::require_owner(void* data, const char* action) const {
  origin_.require_here(kName);
  const auto range = registrations_.find(data);
  if (count_ == 1 && !range) return *heaps_[0];  // which has its own message for other pointers
  if (Heap* const owner = owner_of(data)) return *owner;
  if (range) {
    throw InvalidArgument(describe_refused_pointer(
        kName, action, data,
        format_text("it lies in registered memory at {}, which unregister() unpins", range->data)));
  }
  throw InvalidArgument(describe_foreign_pointer(kName, action, data, nullptr));
}

void PinnedHeaps::record_stream(void* data, StreamRef stream) {
  if (registrations_.record_stream(data, stream)) return;
  require_owner(data, "record a stream on").allocator.record_stream(data, stream);
}

void PinnedHeaps::record_use(void* data, StreamRef stream) {
  if (registrations_.record_use(data, stream)) return;
  require_owner(data, "record a use of").allocator.record_use(data, stream);
}

void PinnedHeaps::keep_for_graph(void* data, StreamRef stream) {
  if (const auto range = registrations_.find(data)) {
    throw InvalidArgument(describe_refused_pointer(
        kName, "keep for a graph", data,
        format_text("it lies in registered memory at {}, which must stay registered for as long as "
                    "the graph may be launched",
                    range->data)));
  }
  require_owner(data, "keep for a graph").allocator.keep_for_graph(data, stream);
}

void PinnedHeaps::add_registration(void* data, std::size_t bytes) {
  origin_.require_here(kName);
  const auto first = reinterpret_cast<std::uintptr_t>(data);
  for (const std::uintptr_t end : {first, first + bytes - 1}) {
    const auto* const address = reinterpret_cast<const void*>(end);
    if (owner_of(address) == nullptr) continue;
    throw InvalidArgument(
        format_text("pinned: {} at {} cannot be registered: {} is pinned memory of this allocator",
                    format_bytes(bytes), data, address));
  }
  registrations_.add(data, bytes);
}

std::size_t PinnedHeaps::trim(std::size_t bytes_to_keep) {
  const std::size_t reserved = budget_.reserved();
  const std::size_t bytes = reserved > bytes_to_keep ? reserved - bytes_to_keep : 0;
  CachingAllocator::Returned released;
  const Heap* last = nullptr;
  for_each([&](Heap& heap) {
    last = &heap;
    released.add(heap.allocator.try_release(bytes - std::min(bytes, released.bytes),
                                            CachingAllocator::HostWait::yes));
  });
  return last != nullptr ? last->allocator.require_returned(released, bytes) : 0;
}

std::size_t PinnedHeaps::release_unused(std::chrono::nanoseconds age) {
  std::size_t released = 0;
  for_each([&](Heap& heap) {
    released += heap.allocator.release_unused(age, std::chrono::steady_clock::now());
  });
  return released;
}

void PinnedHeaps::retire_stream(StreamRef stream) noexcept {
  for_each([&](Heap& heap) { heap.allocator.retire_stream(stream); });
  registrations_.retire_stream(stream);
}

std::size_t PinnedHeaps::release_others(const Heap& asking, std::size_t bytes,
                                        CachingAllocator::HostWait wait) {
  // The size of a segment, which may be larger than the request; at the limit, only the missing
  // bytes.
  const std::size_t planned = bytes < options_.segment_bytes / 2 ? options_.segment_bytes : bytes;
  const std::size_t beyond = budget_.beyond_max(planned);
  const std::size_t wanted = beyond > 0 ? beyond : planned;
  std::size_t released = 0;
  for_each([&](Heap& heap) {
    if (&heap == &asking || released >= wanted) return;
    released += heap.allocator.release_cached(wanted - released, wait);
  });
  return released;
}

}  // namespace berth
