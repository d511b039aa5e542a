// SPDX-License-Identifier: Apache-2.0
// A finding: its line, and for a race or an alias the two conflicting uses of memory.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace berth::sim {

struct CallStack;

/// One of the two uses.
struct FindingUse {
  std::string call;                  ///< the function, the kernel, or "the host"
  std::string_view does;             ///< "reads"
  std::uint64_t bytes = 0;           ///< of memory
  const CallStack* stack = nullptr;  ///< of the call; null: unknown
  std::uint64_t node = 0;            ///< by a node of a graph: the number of the call that made it
};

struct Finding {
  Finding(std::string line) : text(std::move(line)) {}  // NOLINT: a line is a finding
  Finding(std::string line, std::vector<FindingUse> uses_)
      : text(std::move(line)), uses(std::move(uses_)) {}

  /// "race" of "race: ...".
  [[nodiscard]] std::string_view kind() const {
    return std::string_view(text).substr(0, text.find(':'));
  }

  std::string text;
  std::vector<FindingUse> uses;  ///< the earlier one first
};

}  // namespace berth::sim
