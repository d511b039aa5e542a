// SPDX-License-Identifier: Apache-2.0
// What the host knows to be done, by who of it knows. The simulator sees driver calls, and not how
// host threads order one another: by locks, joins and atomic variables. So the threads of a program
// count as one unless the configuration says otherwise (`threads=apart`), since an order that is
// not known would be reported as a race. An object of the program's knows what was released to it,
// and what threads observe while they act for it; a thread, only once it acquires the object.
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
  /// Whoever heard of it, all may know.
  void everybody_learns(const Clock& clock);

  /// `object` knows what the calling thread does, and the other way round.
  void release(const void* object);
  void acquire(const void* object);
  /// What lies in the memory is gone. The latest uses of memory that objects there have made.
  std::vector<Stamp> forget(std::span<const std::byte> memory);
  /// Whoever joins the thread knows what it knew; and so all do. Its latest use of memory.
  std::optional<Stamp> end_thread(std::uint64_t thread);

 private:
  /// Where threads are apart. One that is new knows what anybody does: whoever started it.
  Knowledge& of_thread(std::uint64_t thread);

  const bool threads_apart_;
  std::uint64_t versions_ = 0;
  Knowledge program_;  // all threads together; where they are apart, what all of them know
  Clock anybody_;
  std::map<const void*, Knowledge> objects_;              // by address
  std::unordered_map<std::uint64_t, Knowledge> threads_;  // by ThreadState::id
};

}  // namespace berth::sim
