// SPDX-License-Identifier: Apache-2.0
// Which work each host thread knows to be done. The simulator sees driver calls, not the locks,
// joins and atomic variables by which host threads order one another. So the threads of a program
// count as one unless the configuration says otherwise (`threads=apart`), since an order that is
// not known would be reported as a race. An object of the program knows what was released to it,
// and what threads observe while they act for it; a thread knows it once it acquires the object.
// Guarded by sim::mutex.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "sim/check/clock.hpp"

namespace berth::sim {

/// What one actor or thread knows.
struct Knowledge {
  Clock clock;
  std::uint64_t version = 0;  ///< no two states of any Knowledge have the same, but 0: nothing
  std::uint64_t program_version = 0;  ///< of an actor: what it has of the program's
  std::optional<Stamp> latest = {};   ///< its own latest use of memory; nullopt before the first
};

class HostClocks {
 public:
  explicit HostClocks(bool threads_apart) : threads_apart_(threads_apart) {}

  /// Of the object that the calling thread acts for, or else of itself.
  Knowledge& current();
  /// What anybody knows.
  [[nodiscard]] const Clock& anybody() const { return anybody_; }
  /// What `object` knows; null where nothing was ever released to it or observed for it.
  [[nodiscard]] const Clock* find(const void* object) const;

  void learn(Knowledge& who, const Clock& clock);
  void learn(Knowledge& who, Stamp stamp);
  /// The program may have told any thread.
  void everybody_learns(const Clock& clock);

  /// `object` learns what the calling thread knows; the calling thread, what `object` knows.
  void release(const void* object);
  void acquire(const void* object);
  /// Objects in this memory are gone. Returns their latest uses of memory.
  std::vector<Stamp> forget(std::span<const std::byte> memory);
  /// A thread that joins the ended one knows what it knew, so all threads learn it. Returns its
  /// latest use of memory.
  std::optional<Stamp> end_thread(std::uint64_t thread);

 private:
  /// With `threads=apart`. A new thread knows all that any thread knows, since one started it.
  Knowledge& of_thread(std::uint64_t thread);

  const bool threads_apart_;
  std::uint64_t versions_ = 0;
  Knowledge program_;  // all threads together; where they are apart, what all of them know
  Clock anybody_;
  std::map<const void*, Knowledge> objects_;              // by address
  std::unordered_map<std::uint64_t, Knowledge> threads_;  // by ThreadState::id
};

}  // namespace berth::sim
