// SPDX-License-Identifier: Apache-2.0
// For every byte that work has accessed: the last write, and the reads since. Consecutive bytes
// with the same uses share a cell, so a copy of a gigabyte needs one cell. The key is the
// simulator's storage of the byte, which is unique although several addresses may map to it.
// Guarded by sim::mutex. Source: Flanagan, Freund, "FastTrack: efficient and precise dynamic race
// detection", 2009.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "sim/check/happens_before.hpp"
#include "sim/functions.hpp"

namespace berth::sim {

struct CallStack;

/// A driver call, numbered over all functions from 1. Of the work of a graph: the call that added
/// or captured the node.
struct CallSite {
  Function function = Function::count;
  std::uint64_t number = 0;
  const char* kernel = nullptr;  ///< the kernel that the call launches; null: none
  /// Set if call sites are on, and the work uses memory or depends on the program.
  const CallStack* stack = nullptr;
  const char* node = nullptr;  ///< the kind of the node, such as "fill"; null: of no graph
  Handle graph = 0;            ///< the executable graph of the node
  std::uint64_t launch = 0;    ///< the number of the call that launched it
};

enum class UseKind { reads, writes, begins, ends };  ///< begins and ends: of pool memory

/// A use of a range of addresses by an operation or the host.
struct Use {
  [[nodiscard]] bool changes() const { return kind != UseKind::reads; }

  Stamp stamp;
  CallSite call;
  Handle stream = 0;  ///< as returned to callers
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;
  UseKind kind = UseKind::reads;
  bool by_host = false;  ///< by a thread itself: no call, stream or context
  Handle context = 0;
  int device = 0;             ///< the slot of the context's device
  std::uint64_t mapping = 0;  ///< see mapping_of(); work of one context
};

/// The start of a kernel on the device: the work that was complete by then.
struct Arrival {
  Clock done;    ///< without `kernel`
  Stamp kernel;  ///< the operation that started it
};

/// An earlier use of the same bytes that conflicts with a later one.
struct Conflict {
  enum class Kind {
    race,      ///< the two are unordered
    aliasing,  ///< they are ordered, but use different mappings that are not coherent yet
  };
  Kind kind;
  Use earlier;
};

class ShadowMemory {
 public:
  /// `counts(use)`: whether an earlier use can conflict.
  using Counts = std::function<bool(const Use&)>;

  /// Enters `use` of `data`, ordered after `before`, a closed clock. Returns the first conflict
  /// with an earlier use; nullopt if there is none. `arrival`: of the kernel that makes the use;
  /// null for other work.
  std::optional<Conflict> enter(std::span<const std::byte> data, const Use& use,
                                const Clock& before, const Arrival* arrival, const Counts& counts);
  /// The same, without entering a use, for unmapping the addresses [start, start + bytes) of
  /// `data`: uses through other mappings do not conflict.
  [[nodiscard]] std::optional<Use> find_use_beyond(std::span<const std::byte> data,
                                                   std::uint64_t start, std::uint64_t bytes,
                                                   const Clock& before, const Counts& counts) const;
  /// The bytes of `data` have moved to `to`.
  void move(std::span<const std::byte> data, const std::byte* to);
  /// Forgets all uses of `data`.
  void forget(std::span<const std::byte> data);

 private:
  struct Cell {
    std::uint64_t end;
    std::optional<Use> write;
    std::vector<Use> reads;  // after the write, unordered
  };
  using Cells = std::map<std::uint64_t, Cell>;  // by start; they do not overlap

  /// A use in `cell` that counts and conflicts with a later one.
  static const Use* conflict(const Cell& cell, bool changes, const Clock& before,
                             const Counts& counts);
  /// A use in `cell` through another mapping, whose write is not visible to `use`.
  static const Use* aliased(const Cell& cell, const Use& use, const Arrival* arrival);
  /// Splits the cell that contains `at`.
  void split(std::uint64_t at);

  Cells cells_;
};

}  // namespace berth::sim
