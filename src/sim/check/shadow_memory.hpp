// SPDX-License-Identifier: Apache-2.0
// For every byte that work has touched: its last write, and the reads since. Bytes that
// were used alike share a cell, so that a copy of a gigabyte costs one. Keyed by where the
// simulator keeps the byte, which is one place however many addresses map to it. Guarded by
// sim::mutex. Source: Flanagan, Freund, "FastTrack: efficient and precise dynamic race detection",
// 2009.
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

/// Which driver call, counted over all functions from 1.
struct CallSite {
  Function function = Function::count;
  std::uint64_t number = 0;
  const char* kernel = nullptr;      ///< the name of the kernel among its work; null: none
  const CallStack* stack = nullptr;  ///< if call sites are on, and its work uses memory
};

enum class UseKind { reads, writes, begins, ends };  ///< the last two: of memory of a pool

/// What an operation, or the host, did to a range of addresses.
struct Use {
  [[nodiscard]] bool changes() const { return kind != UseKind::reads; }

  Stamp stamp;
  CallSite call;
  Handle stream = 0;  ///< as callers know it
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;
  UseKind kind = UseKind::reads;
  bool by_host = false;  ///< by a thread itself: of no call, no stream and no context
  Handle context = 0;
  int device = 0;             ///< of the context: slot
  std::uint64_t mapping = 0;  ///< see mapping_of(); work of one context
};

/// When a kernel came onto the device: what was done by then.
struct Arrival {
  Clock done;    ///< but for `kernel`
  Stamp kernel;  ///< the operation that began it
};

/// What an earlier use did to the same bytes that a later one must not meet.
struct Conflict {
  enum class Kind {
    race,      ///< nothing orders the two
    aliasing,  ///< they are ordered, and use different mappings that are not coherent yet
  };
  Kind kind;
  Use earlier;
};

class ShadowMemory {
 public:
  /// `counts(use)`: whether an earlier use can be a conflict at all.
  using Counts = std::function<bool(const Use&)>;

  /// Enters `use` of `data`, which comes after `before`, a closed clock. The first conflict with
  /// an earlier use; nullopt where there is none. `arrival`: of the kernel that makes the use; null
  /// for other work.
  std::optional<Conflict> enter(std::span<const std::byte> data, const Use& use,
                                const Clock& before, const Arrival* arrival, const Counts& counts);
  /// The same without entering anything, for the end of the addresses from `start` to `start` +
  /// `bytes`, through which they were used: what uses them through other mappings is not concerned.
  [[nodiscard]] std::optional<Use> find_use_beyond(std::span<const std::byte> data,
                                                   std::uint64_t start, std::uint64_t bytes,
                                                   const Clock& before, const Counts& counts) const;
  /// Forgets all uses of `data`.
  void forget(std::span<const std::byte> data);

 private:
  struct Cell {
    std::uint64_t end;
    std::optional<Use> write;
    std::vector<Use> reads;  // after the write, in no order among one another
  };
  using Cells = std::map<std::uint64_t, Cell>;  // by start; they do not overlap

  /// A use in `cell` that a later one conflicts with, of those that count.
  static const Use* conflict(const Cell& cell, bool changes, const Clock& before,
                             const Counts& counts);
  /// A use in `cell` through another mapping, whose bytes `use` does not see.
  static const Use* aliased(const Cell& cell, const Use& use, const Arrival* arrival);
  /// Makes `at` a border between cells, if it lies inside one.
  void split(std::uint64_t at);

  Cells cells_;
};

}  // namespace berth::sim
