// SPDX-License-Identifier: Apache-2.0
#include "memory/order/graph_holds.hpp"

#include <atomic>
#include <cstddef>
#include <new>
#include <vector>

#include "base/mutex.hpp"
#include "base/per_process.hpp"

namespace berth {

/// The state that user objects need after the allocator is destroyed.
struct GraphHolds::FinishedHolds {
  std::atomic<Hold*> ended = nullptr;
  /// The function of the simulated driver that orders the graph's work, by the destructor, before
  /// the reuse that collect() permits.
  sim_abi::HostReleases* notify = nullptr;
  std::size_t outstanding = 0;  ///< of a destroyed allocator
};

struct GraphHolds::Hold {
  FinishedHolds* ends;
  Block* block;
  std::uint64_t capture = 0;
  Hold* next = nullptr;
};

void GraphHolds::HoldDeleter::operator()(Hold* hold) const noexcept {
  delete hold;
}

namespace {

/// Frees the holds that have ended. Returns their number.
template <class Hold>
std::size_t drop(Hold* ended) noexcept {
  std::size_t count = 0;
  while (ended != nullptr) {
    Hold* const next = ended->next;
    delete ended;
    ended = next;
    ++count;
  }
  return count;
}

/// Lists of allocators that ended before some of the graphs. Each is freed by a later allocator,
/// when all of its holds have ended: then no destructor accesses it any more.
template <class FinishedHolds>
struct Orphans {
  Mutex mutex;
  std::vector<FinishedHolds*> all BERTH_GUARDED_BY(mutex);
};

template <class FinishedHolds>
constinit PerProcess<Orphans<FinishedHolds>> orphans_of;

}  // namespace

GraphHolds::GraphHolds(const Driver& driver) : driver_(driver), finished_(new FinishedHolds) {
  finished_->notify = driver.sim_host_releases_function();
  auto& orphans = orphans_of<FinishedHolds>.get();
  const MutexLock lock(orphans.mutex);
  std::erase_if(orphans.all, [this](FinishedHolds* ends) {
    ends->outstanding -= drop(ends->ended.exchange(nullptr, std::memory_order_acquire));
    if (ends->outstanding > 0) return false;
    driver_.sim_host_forgets(ends);
    delete ends;
    return true;
  });
}

GraphHolds::~GraphHolds() {
  if (!origin_.is_here()) return;  // the lists are the parent's, so they may be locked
  outstanding_ -= drop(finished_->ended.exchange(nullptr, std::memory_order_acquire));
  if (outstanding_ == 0) {
    driver_.sim_host_forgets(finished_);
    delete finished_;
    return;
  }
  finished_->outstanding = outstanding_;
  try {
    auto& orphans = orphans_of<FinishedHolds>.get();
    const MutexLock lock(orphans.mutex);
    orphans.all.push_back(finished_);
  } catch (const std::bad_alloc&) {  // NOLINT(bugprone-empty-catch): the list leaks
  }
}

bool GraphHolds::are_supported(const Driver& driver) {
  return driver.has(DriverCall::user_object_create) &&
         driver.has(DriverCall::user_object_release) &&
         driver.has(DriverCall::graph_retain_user_object);
}

GraphHolds::HoldPtr GraphHolds::make(Block& block) const {
  return HoldPtr(new Hold{.ends = finished_, .block = &block});
}

void GraphHolds::attach(HoldPtr& hold, const CaptureState& capture) const {
  // Called on a thread of the driver. Takes no lock, does not wait or allocate, and makes no driver
  // call. After the exchange, it accesses neither the hold nor the list, because the allocator may
  // free both.
  const auto end = [](void* data) {
    Hold* const ended = static_cast<Hold*>(data);
    FinishedHolds& ends = *ended->ends;
    if (ends.notify != nullptr) ends.notify(&ends);
    ended->next = ends.ended.load(std::memory_order_relaxed);
    while (!ends.ended.compare_exchange_weak(ended->next, ended, std::memory_order_release,
                                             std::memory_order_relaxed)) {
    }
  };
  hold->capture = capture.id;
  CUuserObject object = nullptr;
  driver_.user_object_create(&object, static_cast<void*>(hold.get()), static_cast<CUhostFn>(end),
                             1U, unsigned{CU_USER_OBJECT_NO_DESTRUCTOR_SYNC});
  static_cast<void>(hold.release());  // the driver's
  const CUresult result = driver_.try_graph_retain_user_object(capture.graph, object, 1U,
                                                               unsigned{CU_GRAPH_USER_OBJECT_MOVE});
  if (result == CUDA_SUCCESS) return;
  driver_.user_object_release_or_report(object, 1U);  // calls the destructor
  driver_.raise(DriverCall::graph_retain_user_object, result);
}

void GraphHolds::record_attached(const Block& block, std::uint64_t id, const Hold* hold) noexcept {
  try {
    known_.insert_or_assign(Key{id, &block}, hold);
  } catch (const std::bad_alloc&) {  // NOLINT(bugprone-empty-catch): the next copy holds it too
  }
}

GraphHolds::HoldPtr GraphHolds::take_finished() noexcept {
  if (finished_->ended.load(std::memory_order_relaxed) == nullptr) return nullptr;
  HoldPtr ended(finished_->ended.exchange(nullptr, std::memory_order_acquire));
  driver_.sim_host_acquires(finished_);
  return ended;
}

Block& GraphHolds::block_of(const Hold& hold) noexcept {
  return *hold.block;
}

GraphHolds::HoldPtr GraphHolds::next_of(HoldPtr hold) noexcept {
  return HoldPtr(hold->next);
}

void GraphHolds::forget(const Hold& hold) noexcept {
  const auto known = known_.find({hold.capture, hold.block});
  if (known != known_.end() && known->second == &hold) known_.erase(known);
}

}  // namespace berth
