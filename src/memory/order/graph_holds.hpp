// SPDX-License-Identifier: Apache-2.0
// Captured graphs that hold blocks of one heap: a graph, and every executable graph made from it,
// may read or write the blocks at each launch. A user object of the driver, to which the graph has
// a reference, reports when the last of them is destroyed. Source: CUDA Programming Guide, "CUDA
// User Objects"; CUDA Driver API, cuUserObjectCreate.
//
// The driver calls the user object's destructor on a thread of its own, at any time, also after the
// end of the allocator. The destructor may call no driver function, and must not wait for a thread
// that does. So the destructor only pushes the hold, which exists since the capture, to a lock-free
// list. The allocator takes the holds from the list under its own lock.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <map>
#include <memory>
#include <utility>

#include "base/fork.hpp"
#include "driver/driver.hpp"
#include "heap/block.hpp"
#include "stream/capture.hpp"

namespace berth {

/// Guarded by the lock of the allocator that it belongs to, except for attach().
class GraphHolds {
 public:
  /// One graph's hold of one block.
  struct Hold;
  struct HoldDeleter {
    void operator()(Hold* hold) const noexcept;
  };
  using HoldPtr = std::unique_ptr<Hold, HoldDeleter>;

  explicit GraphHolds(const Driver& driver);
  /// Graphs may still exist; their user objects keep the memory that they need.
  ~GraphHolds();
  GraphHolds(const GraphHolds&) = delete;
  GraphHolds& operator=(const GraphHolds&) = delete;

  /// Whether the driver reports the end of graphs.
  [[nodiscard]] static bool are_supported(const Driver& driver);

  /// A hold of `block` that no graph has yet.
  /// Errors  std::bad_alloc.
  [[nodiscard]] HoldPtr make(Block& block) const;
  /// Whether the graph of the capture `id`, which is 1 or more, is known to hold the block.
  [[nodiscard]] bool has(const Block& block, std::uint64_t id) const {
    return known_.count({id, &block}) == 1;
  }
  /// Keeps the block forever, because the driver does not report the end of the graph.
  /// Errors  std::bad_alloc: nothing is changed.
  void mark_permanent(const Block& block) { known_.emplace(Key{kNoCapture, &block}, nullptr); }
  [[nodiscard]] bool is_permanent(const Block& block) const { return has(block, kNoCapture); }

  /// Between begin() and the result of attach(), the hold counts as the driver's.
  void begin() noexcept { ++outstanding_; }
  void cancel() noexcept {
    BERTH_CHECK(outstanding_ > 0);
    --outstanding_;
  }
  /// Gives the hold to the graph of `capture`. Call it without a lock.
  /// Errors  DriverError: if `hold` is not null then, the caller still owns it and calls cancel();
  ///         otherwise collect() returns it later.
  void attach(HoldPtr& hold, const CaptureState& capture) const;
  /// `hold` has been handed over: from now on the graph is known to hold the block. Harmless if the
  /// graph has been destroyed meanwhile. If there is no host memory, nothing is changed.
  void record_attached(const Block& block, std::uint64_t id, const Hold* hold) noexcept;

  /// Calls visit(Block&) for each hold whose graph and executable graphs are destroyed. visit()
  /// neither throws nor calls this object.
  template <class Visit>
  void collect(const Visit& visit) noexcept {
    for (HoldPtr hold = take_finished(); hold != nullptr;) {
      Block& block = block_of(*hold);
      forget(*hold);
      BERTH_CHECK(outstanding_ > 0);
      --outstanding_;
      hold = next_of(std::move(hold));
      visit(block);
    }
  }
  /// Holds that belong to graphs.
  [[nodiscard]] std::size_t outstanding() const { return outstanding_; }

 private:
  struct FinishedHolds;
  using Key = std::pair<std::uint64_t, const Block*>;
  static constexpr std::uint64_t kNoCapture = 0;

  /// All holds that have ended, as a list.
  [[nodiscard]] HoldPtr take_finished() noexcept;
  static Block& block_of(const Hold& hold) noexcept;
  static HoldPtr next_of(HoldPtr hold) noexcept;
  void forget(const Hold& hold) noexcept;

  const ForkOrigin origin_;
  const Driver& driver_;
  FinishedHolds* finished_;
  std::size_t outstanding_ = 0;
  /// The last hold of each graph and block; null: forever.
  std::map<Key, const Hold*> known_;
};

}  // namespace berth
