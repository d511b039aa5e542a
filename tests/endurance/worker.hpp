// SPDX-License-Identifier: Apache-2.0
// One thread's random program. What it does depends on the seed and on what the allocator answers,
// so that one thread with one seed is the same program every time.
//
// Drifts between a full device and one that is somewhat emptier, with requests of another mixture
// each time. In a checked mode the program orders its own work, so that what is unordered is the
// allocator's doing: a block is written on its stream; other streams read it behind that, and
// nobody writes it any more.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "endurance/books.hpp"
#include "endurance/shared.hpp"
#include "model/random.hpp"

namespace berth::endurance {

class Worker;
/// That of the calling thread, while it runs.
inline thread_local Worker* running_worker = nullptr;

class Worker {
 public:
  Worker(Shared& shared, unsigned index, std::uint64_t seed);
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  void run(std::uint64_t operations);
  /// In the middle of a request of its own: frees some of what it has. False where it has nothing.
  bool relieve(std::size_t bytes);
  /// From now on it allocates less than it frees, until nothing is left.
  void empty();
  /// Frees what it has.
  void free_all();
  /// Frees what came too late, on the calling thread.
  void free_parcels();

  [[nodiscard]] const std::vector<LiveBlock>& live() const { return live_; }
  [[nodiscard]] const Tally& tally() const { return tally_; }

 private:
  // worker.cpp: blocks come and go.
  void step();
  void allocate();
  void accept(void* data, std::size_t bytes, StreamPlace& place);
  void free_some();
  void free_block(const LiveBlock& block);
  /// The last use of a block; from here on it is not the program's any more.
  void leave(const LiveBlock& block);
  LiveBlock take_some();
  void hand_over(const LiveBlock& block);
  /// Declares that what `user` holds now uses a block, in one of the two ways.
  void record_elsewhere(LiveBlock& block, StreamRef user);
  void receive();
  void start_phase();
  [[nodiscard]] StreamPlace& some_place();
  [[nodiscard]] StreamPlace& own_place() { return places_[random_.below(places_.size())]; }
  [[nodiscard]] bool works();
  [[nodiscard]] bool hands_over();
  [[nodiscard]] bool is_alone() const { return mode_.threads == 1; }

  // worker_guests.cpp: who comes, allocates and goes.
  void host_stream();
  void host_pool();
  void leave_stream(StreamRef stream);

  // worker_rare.cpp: what happens now and then.
  void do_rare(std::size_t choice);
  void use_elsewhere();
  void replace_stream();
  void change_limit();
  void trim();
  void refuse_strangers();
  void free_on_passing_thread();
  void reset_peaks();
  void check_counters();
  [[nodiscard]] bool must_fit(std::size_t bytes) const;

  Shared& shared_;
  const Mode& mode_;
  Machine& machine_;
  DeviceAllocator& memory_;
  const unsigned index_;
  test::Random random_;
  std::array<StreamPlace, 3> places_;  ///< streams of its own
  std::vector<LiveBlock> live_;
  Sums sums_;
  Sums peaks_;
  Tally tally_;
  std::optional<std::size_t> limit_;
  bool filling_ = true;
  std::size_t bytes_low_ = 0;  ///< where emptying ends
  std::size_t request_bytes_max_ = 0;
  std::vector<std::size_t> usual_bytes_;
};

}  // namespace berth::endurance
