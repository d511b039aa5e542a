// SPDX-License-Identifier: Apache-2.0
// Names that the program has given to its memory, for findings. Guarded by sim::mutex.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace berth::sim {

class MemoryNames {
 public:
  /// Names [start, start + bytes). An earlier name of a byte ends; an empty `name` gives none.
  void set(std::uint64_t start, std::uint64_t bytes, std::string_view name);
  void forget(std::uint64_t start, std::uint64_t bytes) { set(start, bytes, {}); }
  [[nodiscard]] bool empty() const { return parts_.empty(); }

  /// The names of bytes in [start, start + bytes), in the order of their addresses, each once, at
  /// most `count`.
  [[nodiscard]] std::vector<std::string> find(std::uint64_t start, std::uint64_t bytes,
                                              std::size_t count) const;
  /// " (name)" of those bytes, or " (name + offset)" if they begin behind the beginning of the
  /// named memory; " (first, second and more)" of several; empty if none has a name.
  [[nodiscard]] std::string describe(std::uint64_t start, std::uint64_t bytes) const;

 private:
  struct Part {
    std::uint64_t end;
    std::uint64_t named_from;  ///< where the name began, before later names took its first bytes
    std::string name;
  };

  /// Splits the part that contains `at`.
  void split(std::uint64_t at);
  /// The first part with a byte at or after `start`.
  [[nodiscard]] std::map<std::uint64_t, Part>::const_iterator first_from(std::uint64_t start) const;

  std::map<std::uint64_t, Part> parts_;  // by start; they do not overlap
};

}  // namespace berth::sim
