// SPDX-License-Identifier: Apache-2.0
// What a random program of streams does with the pools: leases of streams and events, what happens
// at the bound, and what is there after everything came back.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "model/stream_world.hpp"
#include "support/errors.hpp"
#include "support/meanwhile.hpp"

namespace berth::test {

/// One of `items`, taken out of it.
template <class Item>
Item take_out(std::vector<Item>& items, std::size_t index) {
  Item item = std::move(items[index]);
  items.erase(items.begin() + std::ptrdiff_t(index));
  return item;
}

class StreamLeases : public StreamWorld {
 public:
  using StreamWorld::StreamWorld;

 protected:
  using Next = StreamPoolModel::Next;
  static constexpr std::size_t kHeldMax = 10;

  /// A lease, where the pool has one to give.
  void lease_stream(std::size_t thread) {
    if (held_.size() >= kHeldMax) return;
    const std::size_t device = random_.below(kDevices);
    const int asked = some_priority();
    const int priority = clamped(asked);
    switch (pools_[device].next(priority)) {
      case Next::fails:
        on(thread, [&] { message_of<Exhausted>([&] { return pool(device).acquire(asked); }); });
        pools_[device].forget_last();  // what threads keep was looked through
        return;
      case Next::waits:
        return wait_for_stream(thread, device, priority);
      case Next::shared:
        if (!captured_.empty()) return;  // it could be one that is captured
        break;
      default:
        break;
    }
    const bool is_alone = pools_[device].next(priority) == Next::alone;
    std::optional<StreamLease> lease;
    on(thread, [&] { lease.emplace(pool(device).acquire(asked)); });
    if (is_alone) CHECK_MESSAGE(!(*lease)->is_capturing(), "a lease of a stream that is captured");
    pools_[device].acquired(thread_ids_[thread], priority, lease->ref().native(),
                            pool(device).streams_created());
    hold(std::move(*lease), device, priority);
  }
  void hold(StreamLease lease, std::size_t device, int priority) {
    CHECK(lease->device() == named(device));
    int of_driver = 1;
    const RawContext raw(contexts_[device]);
    CHECK(sim::berth_sim_cuStreamGetPriority(lease->native(), &of_driver) == CUDA_SUCCESS);
    CHECK(of_driver == priority);
    const NamedStream stream = pooled(lease, device);
    held_.push_back({std::move(lease), stream, priority});
  }

  /// In one of the two ways, on whatever thread; with the work that is pending.
  void give_stream_back(std::size_t thread) {
    if (held_.empty()) return;
    const std::size_t index = random_.below(held_.size());
    if (captured_.contains(held_[index].stream.lane)) return;
    give_stream_back(thread, take_out(held_, index));
  }
  void give_stream_back(std::size_t thread, HeldStream held) {
    const std::size_t device = held.stream.device;
    const bool by_name = random_.below(3) == 0;
    on(thread, [&] {
      if (by_name) {
        pool(device).give_back(held.lease.release());
      } else {
        const StreamLease ended = std::move(held.lease);
      }
    });
    pools_[device].gave_back(thread_ids_[thread], held.priority, held.stream.ref.native());
  }

  /// At the bound another thread waits, and gets what `thread` gives back.
  void wait_for_stream(std::size_t thread, std::size_t device, int priority) {
    const auto held = std::ranges::find_if(held_, [&](const HeldStream& each) {
      return each.stream.device == device && each.priority == priority &&
             !captured_.contains(each.stream.lane);
    });
    if (held == held_.end()) return;
    CUstream_st* const native = held->stream.ref.native();
    StreamPool& streams = pool(device);
    std::optional<StreamLease> lease;
    std::atomic<bool> has_lease = false;
    // It sleeps before the stream comes back, so that a seed is one run however busy the machine
    // is.
    Meanwhile waiter([&] {
      lease.emplace(streams.acquire(priority));
      has_lease = true;
    });
    waiter.start();
    CHECK_FALSE(waiter.was_done());
    give_stream_back(thread, take_out(held_, std::size_t(held - held_.begin())));
    const auto hangs_at = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!has_lease && std::chrono::steady_clock::now() < hangs_at) std::this_thread::yield();
    if (!has_lease) {
      FAIL_CHECK("a thread waits for a stream that came back");
      std::abort();  // nothing of the pool can be destroyed while it does
    }
    waiter.join();
    CHECK(lease->ref().native() == native);
    pools_[device].acquired(++threads_begun_, priority, lease->ref().native(),
                            streams.streams_created());
    hold(std::move(*lease), device, priority);
  }

  void lease_event(std::size_t thread) {
    if (events_.size() >= kHeldMax) return;
    const std::size_t device = random_.below(kDevices);
    const bool timing = random_.below(2) == 0;
    HeldEvent held{{}, {}, device, timing, {}};
    if (random_.one_in(4)) {
      on(thread, [&] { held.owned.emplace(context(device), EventOptions{.timing = timing}); });
      ++events_made_;
    } else {
      on(thread, [&] { held.lease.emplace(events(device).acquire({.timing = timing})); });
      note_leased_event(held.ref(), device, timing);
    }
    events_.push_back(std::move(held));
  }
  void give_event_back(std::size_t thread) {
    if (events_.empty()) return;
    HeldEvent held = take_out(events_, random_.below(events_.size()));
    const bool by_name = random_.below(3) == 0;
    if (held.owned) ++events_destroyed_;
    on(thread, [&] {
      if (held.lease && by_name) {
        events(held.device).give_back(held.lease->release());
      } else {
        const HeldEvent ended = std::move(held);
      }
    });
  }

  /// A thread that leases, submits nothing, and is thrown out: what it had goes to what it keeps.
  void throw_away(std::size_t thread) {
    struct Thrown {};
    const std::size_t device = random_.below(kDevices);
    const int priority = clamped(some_priority());
    const std::size_t count = std::min<std::size_t>(pools_[device].streams_left(priority), 3);
    std::vector<CUstream_st*> natives;
    std::vector<std::size_t> created;
    try {
      on(thread, [&] {
        std::vector<EventLease> marks;
        for (int mark = 0; mark < 3; ++mark) marks.push_back(events(device).acquire());
        std::vector<StreamLease> leases;
        for (std::size_t lease = 0; lease < count; ++lease) {
          leases.push_back(pool(device).acquire(priority));
          natives.push_back(leases.back()->native());
          created.push_back(pool(device).streams_created());
        }
        throw Thrown{};
      });
    } catch (const Thrown&) {
      for (std::size_t lease = 0; lease < count; ++lease) {
        pools_[device].acquired(thread_ids_[thread], priority, natives[lease], created[lease]);
      }
      for (CUstream_st* const native : natives) {
        pools_[device].gave_back(thread_ids_[thread], priority, native);
      }
      pools_[device].forget_last();  // in whichever order a vector ends
    }
  }

  /// Every stream that exists can be had by this thread, and as many as the bound says: nothing is
  /// left with threads that have ended.
  void check_nothing_is_lost() {
    for (std::size_t device = 0; device < kDevices; ++device) {
      for (int priority = priority_min_; priority <= 0; ++priority) {
        const std::size_t before = pool(device).streams_created();
        const std::size_t existing = pools_[device].created(priority);
        std::vector<StreamLease> leases;
        const std::size_t wanted = std::max(pool_options_.streams_max, existing);
        while (leases.size() < wanted) {
          leases.push_back(pool(device).acquire(priority));
          pools_[device].acquired(thread_ids_[0], priority, leases.back()->native(),
                                  pool(device).streams_created());
        }
        CHECK(pool(device).streams_created() - before == wanted - existing);
        for (const StreamLease& lease : leases)
          pools_[device].gave_back(thread_ids_[0], priority, lease->native());
        pools_[device].forget_last();
      }
      if (callbacks_submitted_ > 0) continue;  // the thread of callbacks keeps some events
      const std::size_t events_created = events(device).events_created();
      for (const bool timing : {false, true}) {
        const auto existing =
            std::size_t(std::ranges::count_if(pooled_events_, [&](const auto& each) {
              return each.second.timing == timing && each.second.device == device;
            }));
        std::vector<EventLease> leases;
        while (leases.size() < existing) leases.push_back(events(device).acquire({timing}));
      }
      CHECK(events(device).events_created() == events_created);
    }
  }

  [[nodiscard]] DeviceContext& context(std::size_t device) {
    return runtime_.devices().context(named(device));
  }
};

}  // namespace berth::test
