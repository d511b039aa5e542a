// SPDX-License-Identifier: Apache-2.0
// What the calls of one input have made: handles and addresses, those that are gone among them. An
// approximation: what disappears with its context still counts as live here.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace berth::fuzz {

enum class Kind {
  context,
  stream,
  event,
  memory,  ///< of cuMemAlloc, or of a pool
  pool,
  pinned,        ///< of cuMemHostAlloc
  registration,  ///< of cuMemHostRegister
  reservation,
  mapping,
  physical,
  graph,
  node,
  exec,
  user_object,
  module,
  function,
  descriptor,  ///< of a file that stands for physical memory
  gpu,         ///< a handle of NVML
  count
};

struct Thing {
  std::uint64_t value = 0;  ///< 0: none
  std::uint64_t bytes = 0;  ///< of an address
  bool on_host = false;     ///< the process itself can read it
};

class Things {
 public:
  void add(Kind kind, Thing thing);
  /// Moves the thing of this value, if there is one, to those that are gone.
  void end(Kind kind, std::uint64_t value);

  /// The `choice`th newest one that is live, counted around; none where there is none.
  [[nodiscard]] Thing live(Kind kind, std::size_t choice) const;
  [[nodiscard]] Thing gone(Kind kind, std::size_t choice) const;
  [[nodiscard]] const std::vector<Thing>& all_live(Kind kind) const { return of(kind).live; }
  [[nodiscard]] const std::vector<Thing>& all_gone(Kind kind) const { return of(kind).gone; }

  /// What functions have given as text: names, UUIDs, addresses on the bus.
  std::vector<std::string> texts;

 private:
  struct OfKind {
    std::vector<Thing> live;
    std::vector<Thing> gone;
  };

  [[nodiscard]] const OfKind& of(Kind kind) const { return kinds_[static_cast<std::size_t>(kind)]; }

  std::array<OfKind, static_cast<std::size_t>(Kind::count)> kinds_;
};

}  // namespace berth::fuzz
