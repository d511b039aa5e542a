// SPDX-License-Identifier: Apache-2.0
// The address space: device allocations, mappings inside reservations, managed and pinned host
// memory. Any other address is pageable host memory, or was freed. Invariants: ranges do not
// overlap; a mapping lies inside one reservation. Guarded by sim::mutex.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <set>
#include <vector>

#include "sim/handle_table.hpp"
#include "sim/memory/physical_memory.hpp"
#include "sim/memory/virtual_arena.hpp"

namespace berth::sim {

enum class RangeKind {
  allocation,
  pool_allocation,
  graph_allocation,  ///< an allocation node's address; without a block if it has no memory
  mapping,
  imported,  ///< an allocation of another process
  managed,   ///< in host memory, accessible to every device and the host
  host_allocation,
  host_registration,
};

/// One bit for each device, by slot.
using DeviceSet = std::uint64_t;
constexpr DeviceSet device_bit(int device) {
  return DeviceSet{1} << device;
}

struct CallStack;

struct Range {
  RangeKind kind;
  std::uint64_t start;
  std::uint64_t bytes;
  Handle context = 0;              ///< of the creating call; 0 for a mapping
  int device = 0;                  ///< slot of the device; for host memory, that of the context
  PhysicalBlock* block = nullptr;  ///< null for host memory
  std::uint64_t block_offset = 0;
  DeviceSet readers = 0;  ///< set by cuMemSetAccess or the pool; otherwise all with access
  DeviceSet writers = 0;
  std::uint64_t chunk = 0;             ///< for a small allocation, the start of its chunk
  Handle pool = 0;                     ///< the pool of a pool allocation
  unsigned host_flags = 0;             ///< the flags of a host allocation
  std::uint64_t id = 0;                ///< never reused
  bool synchronous = false;            ///< see CU_POINTER_ATTRIBUTE_SYNC_MEMOPS
  bool is_variable = false;            ///< of a module, whose end ends it
  const CallStack* made_at = nullptr;  ///< null if call sites are off, and for pool memory

  [[nodiscard]] std::uint64_t end() const { return start + bytes; }
  [[nodiscard]] bool is_host() const {
    return kind == RangeKind::managed || kind == RangeKind::host_allocation ||
           kind == RangeKind::host_registration;
  }
  /// Whether stream-ordered operations allocate and free it.
  [[nodiscard]] bool is_stream_ordered() const {
    return kind == RangeKind::pool_allocation || kind == RangeKind::graph_allocation;
  }
  [[nodiscard]] bool is_closed() const { return kind == RangeKind::mapping || is_stream_ordered(); }
};

/// Whether the host waits for synchronous copies and fills of it in any case.
inline bool is_synchronous(const Range* range) {
  return range != nullptr && range->synchronous;
}

struct Reservation {
  std::uint64_t start;
  std::uint64_t bytes;
  std::uint64_t mappings = 0;
};

/// Describes [address, address + bytes).
struct Span {
  enum class Kind {
    device,    ///< inside one allocation, or mapped without a gap inside one reservation
    pinned,    ///< inside one range of pinned or managed host memory
    pageable,  ///< not a simulated address
    invalid,   ///< freed, unmapped, or beyond the end of its range
  };
  Kind kind = Kind::invalid;
  int device = 0;         ///< of the first byte; for pinned memory, that of its context
  bool closed = false;    ///< only readers and writers have access, regardless of peer access
  DeviceSet readers = 0;  ///< devices that may read all of it
  DeviceSet writers = 0;
};

class AddressSpace {
 public:
  Range& add(const Range& range);
  /// An id for a range that is visible only to work.
  std::uint64_t new_id() { return next_id_++; }
  void remove(std::uint64_t start);
  /// The same for pool memory that a call frees in stream order: span() still has it until its
  /// address is used again, or forget_freed().
  void remove_in_order(std::uint64_t start);
  /// The pool has returned [start, start + bytes).
  void forget_freed(std::uint64_t start, std::uint64_t bytes);
  /// The range that contains `address`, or null.
  Range* find(std::uint64_t address);
  /// The range that starts at `start`, or null.
  Range* find_start(std::uint64_t start);
  /// Whether a range has a byte in [start, start + bytes).
  bool overlaps(std::uint64_t start, std::uint64_t bytes);
  /// The ranges that tile [start, start + bytes) exactly; empty if there are none.
  std::vector<Range*> tiles(std::uint64_t start, std::uint64_t bytes);

  Reservation& reserve(std::uint64_t start, std::uint64_t bytes);
  void unreserve(std::uint64_t start);
  Reservation* find_reservation(std::uint64_t address);

  /// As visible to calls.
  Span span(std::uint64_t address, std::uint64_t bytes);

  /// For calls, pool memory exists from the allocating call to the freeing call. For work, it
  /// exists from the allocation to the free in stream order. Both may be later, when the same
  /// address is already another allocation for calls. False if it was withdrawn, or did not arrive.
  bool arrive(const Range& range);
  bool depart(const Range& range);
  /// Ends `range` for work, too, even if it has not arrived yet.
  void withdraw(const Range& range);
  /// The same as find() and span(), for running work.
  Range* find_for_work(std::uint64_t address);
  Span span_for_work(std::uint64_t address, std::uint64_t bytes);
  /// The allocations of `pool`, both for calls and for work.
  template <class Visit>
  void for_each_of_pool(Handle pool, Visit&& visit) {
    for (auto* view : {&ranges_, &arrived_})
      for (auto& [start, range] : *view)
        if (range.pool == pool) visit(range);
  }

  template <class Visit>
  void for_each_range(Visit&& visit) const {
    for (const auto& [start, range] : ranges_) visit(range);
  }
  /// The parts of pinned and managed memory in [start, start + bytes), each as a range of its own.
  template <class Visit>
  void for_each_host_range(std::uint64_t start, std::uint64_t bytes, Visit&& visit) const {
    const std::uint64_t end = start + bytes;
    auto range = ranges_.upper_bound(start);
    if (range != ranges_.begin() && std::prev(range)->second.end() > start) --range;
    for (; range != ranges_.end() && range->first < end; ++range) {
      if (!range->second.is_host()) continue;
      Range part = range->second;
      part.start = std::max(part.start, start);
      part.bytes = std::min(range->second.end(), end) - part.start;
      visit(part);
    }
  }
  template <class Visit>
  void for_each_reservation(Visit&& visit) const {
    for (const auto& [start, reservation] : reservations_) visit(reservation);
  }

  VirtualArena arena;

 private:
  /// span() without memory that calls have freed in stream order.
  Span span_of_ranges(std::uint64_t address, std::uint64_t bytes);
  [[nodiscard]] bool has_arrived(const Range& range) const;

  std::map<std::uint64_t, Range> ranges_;
  std::map<std::uint64_t, Range> freed_;    // see remove_in_order()
  std::map<std::uint64_t, Range> arrived_;  // pool memory as visible to work
  std::map<std::uint64_t, Reservation> reservations_;
  std::set<std::uint64_t> withdrawn_;  // ids of ranges that must not become visible any more
  std::uint64_t next_id_ = 1;
};

}  // namespace berth::sim
