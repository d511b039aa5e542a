// SPDX-License-Identifier: Apache-2.0
// For every byte that work has touched: who wrote it last, and who has read it since. Bytes that were
// used alike share a cell, so that a copy of a gigabyte costs one. Keyed by where the simulator keeps
// the byte, which is one place however many addresses map to it. Guarded by sim::mutex.
// Source: Flanagan, Freund, "FastTrack: efficient and precise dynamic race detection", 2009.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "sim/functions.hpp"
#include "sim/happens_before.hpp"

namespace berth::sim {

/// Which driver call, counted over all functions from 1.
struct CallSite {
  Function function = Function::count;
  std::uint64_t number = 0;
};

/// What an operation did to a range of addresses.
struct Use {
  Stamp stamp;
  CallSite call;
  Handle stream = 0;
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;
  bool writes = false;
};

class ShadowMemory {
 public:
  /// Enters `use` of [data, data + bytes). What an earlier use did there that conflicts with it, and
  /// that `before` does not include; nullopt where nothing does.
  std::optional<Use> enter(const std::byte* data, std::size_t bytes, const Use& use,
                           const Clock& before);
  /// The same without entering anything, for a use that ends the bytes.
  [[nodiscard]] std::optional<Use> find_use_beyond(const std::byte* data, std::size_t bytes,
                                                   const Clock& before) const;
  /// Nobody has used [data, data + bytes) yet.
  void forget(const std::byte* data, std::size_t bytes);

 private:
  struct Cell {
    std::uint64_t end;
    std::optional<Use> write;
    std::vector<Use> reads;  // after the write, in no order among one another
  };
  using Cells = std::map<std::uint64_t, Cell>;  // by start; they do not overlap

  static const Use* conflict(const Cell& cell, bool writes, const Clock& before);
  /// Makes `at` a border between cells, if it lies inside one.
  void split(std::uint64_t at);

  Cells cells_;
};

}  // namespace berth::sim
