// SPDX-License-Identifier: Apache-2.0
// The work that each host thread has observed to be complete. The simulator sees driver calls, but
// not the locks, joins and atomic variables by which host threads synchronize. So the threads of a
// program count as one unless configured otherwise (`threads=apart`), because an unknown order
// would be reported as a race. An object of the program has the clock that was released to it, and
// what threads observe while they act for it; a thread obtains this clock by acquiring the object.
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

/// The clock of one actor or thread.
struct HostClock {
  Clock clock;
  std::uint64_t version = 0;          ///< unique for each state of any Knowledge; 0: empty
  std::uint64_t program_version = 0;  ///< of an actor: the program's version that it includes
  std::optional<Stamp> latest = {};   ///< its latest own use of memory; nullopt before the first
};

class HostClocks {
 public:
  explicit HostClocks(bool threads_apart) : threads_apart_(threads_apart) {}

  /// The calling thread is in a driver call. In its first one, it learns what all threads know.
  void enter_thread();
  /// The clock of the object that the calling thread acts for, otherwise of the thread.
  HostClock& current();
  /// The union of the clocks of all threads and objects.
  [[nodiscard]] const Clock& all_threads() const { return all_threads_; }
  /// The clock of `object`; null if nothing was ever released to it or observed for it.
  [[nodiscard]] const Clock* find(const void* object) const;

  void learn(HostClock& who, const Clock& clock);
  void learn(HostClock& who, Stamp stamp);
  /// Adds `clock` to every thread, because the program may have synchronized with any.
  void learn_everywhere(const Clock& clock);

  /// Release: adds the clock of the calling thread to `object`. Acquire: the reverse.
  void release(const void* object);
  void acquire(const void* object);
  /// Objects in this memory were destroyed. Returns their latest uses of memory.
  std::vector<Stamp> forget(std::span<const std::byte> memory);
  /// Any thread may join the ended one, so its clock is added to all threads. Returns its latest
  /// use of memory.
  std::optional<Stamp> end_thread(std::uint64_t thread);

 private:
  /// For `threads=apart`. A new thread starts with the union of all clocks, because some thread
  /// started it.
  HostClock& of_thread(std::uint64_t thread);

  const bool threads_apart_;
  std::uint64_t versions_ = 0;
  HostClock program_;  // all threads together; where they are apart, what all of them know
  Clock all_threads_;
  std::map<const void*, HostClock> objects_;              // by address
  std::unordered_map<std::uint64_t, HostClock> threads_;  // by ThreadState::id
};

}  // namespace berth::sim
