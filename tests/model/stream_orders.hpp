// SPDX-License-Identifier: Apache-2.0
// What a random program of streams does to order its work: marks, waits, joins, forks; and the
// work, which is submitted only where the model has it behind what used the same bytes before.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "model/stream_captures.hpp"

namespace berth::test {

class StreamOrders : public StreamCaptures {
 public:
  using StreamCaptures::StreamCaptures;

 protected:
  struct OpenFork {
    std::unique_ptr<ForkJoin> scope;
    NamedStream parent;
    std::vector<NamedStream> sides;
    int priority;
  };
  // Work, and what brings it into order.

  void use_bytes(std::size_t thread) {
    const NamedStream stream = some_stream(thread);
    std::vector<Use> uses;
    uses.push_back({&some_bytes(stream.device), random_.below(2) == 0});
    if (random_.one_in(4)) {
      SharedBytes& other = some_bytes(stream.device);
      if (&other != uses.front().bytes) uses.push_back({&other, random_.below(2) == 0});
    }
    if (bring_into_order(thread, stream, uses)) submit(thread, stream, uses);
  }

  bool bring_into_order(std::size_t thread, const NamedStream& stream,
                        const std::vector<Use>& uses) override {
    for (const Use& use : uses) {
      for (const Work work : use.bytes->conflicts(use.writes)) {
        const std::size_t first = random_.below(4);
        for (std::size_t way = 0; way < 4; ++way) {
          if (order_.before_next(stream.lane).includes(work)) break;
          bring_after(thread, stream, work, (first + way) % 4);
        }
        if (!order_.before_next(stream.lane).includes(work)) return false;
      }
    }
    return true;
  }
  void bring_after(std::size_t thread, const NamedStream& stream, Work work, std::size_t way) {
    if (way == 0) {
      for (const HeldEvent& held : events_) {
        if (held.mark && held.mark->includes(work)) return wait(thread, stream, held);
      }
      return;
    }
    const NamedStream* const source = find(work.lane, thread);
    if (source == nullptr || source->lane == stream.lane) return;
    if (way == 1) {
      on(thread, [&] { stream.ref.wait(runtime_.record(source->ref)); });
    } else {
      on(thread, [&] { runtime_.join(stream.ref, {source->ref}); });
    }
    order_.wait(stream.lane, Before(order_.mark(source->lane)));
  }

  void record(std::size_t thread) {
    const NamedStream stream = some_stream(thread);
    if (random_.below(3) == 0 && events_.size() < kHeldMax) {
      std::optional<EventLease> lease;
      on(thread, [&] { lease.emplace(runtime_.record(stream.ref)); });
      note_leased_event(lease->ref(), stream.device, false);
      events_.push_back({std::move(lease), {}, stream.device, false, order_.mark(stream.lane)});
      return;
    }
    if (events_.empty()) return;
    HeldEvent& held = events_[random_.below(events_.size())];
    if (held.device == stream.device) {
      on(thread, [&] { held.ref().record(stream.ref); });
      held.mark = order_.mark(stream.lane);
    } else {
      on(thread, [&] { message_of<InvalidArgument>([&] { held.ref().record(stream.ref); }); });
    }
  }
  void wait(std::size_t thread) {
    if (events_.empty()) return;
    const HeldEvent& held = events_[random_.below(events_.size())];
    if (held.mark) wait(thread, some_stream(thread), held);
  }
  void wait(std::size_t thread, const NamedStream& stream, const HeldEvent& held) {
    on(thread, [&] { stream.ref.wait(held.ref()); });
    order_.wait(stream.lane, *held.mark);
  }
  void join(std::size_t thread) {
    const NamedStream waiter = some_stream(thread);
    std::vector<StreamRef> refs;
    Before marks;
    for (std::size_t left = random_.below(5); left > 0; --left) {
      const NamedStream stream = some_stream(thread);
      refs.push_back(stream.ref);
      marks.include(order_.mark(stream.lane));
    }
    on(thread, [&] { runtime_.join(waiter.ref, refs); });
    order_.wait(waiter.lane, marks);
  }

  // Side streams.

  void open_fork(std::size_t thread) {
    if (forks_.size() >= 4) return;
    OpenFork fork{{}, some_stream(thread), {}, clamped(some_priority())};
    const std::size_t device = fork.parent.device;
    StreamPoolModel& model = pools_[device];
    std::size_t count = random_.below(4);
    if (pool_options_.on_shortage == StreamShortage::wait)
      count = std::min(count, model.streams_left(fork.priority));
    const auto open = [&] {
      fork.scope = std::make_unique<ForkJoin>(fork.parent.ref, pool(device), events(device), count,
                                              fork.priority);
    };
    if (pool_options_.on_shortage == StreamShortage::fail &&
        count > model.streams_left(fork.priority)) {
      on(thread, [&] { message_of<Exhausted>(open); });
      model.bound_was_reached(fork.priority, pool(device).streams_created());
      return;
    }
    const Before mark = order_.mark(fork.parent.lane);
    on(thread, open);
    REQUIRE(fork.scope->size() == count);
    for (const StreamRef ref : fork.scope->streams()) {
      model.acquired(thread_ids_[thread], fork.priority, ref.native(),
                     pool(device).streams_created());
      fork.sides.push_back(pooled(ref, device));
      side_streams_.push_back(fork.sides.back());
      order_.wait(fork.sides.back().lane, mark);
    }
    forks_.push_back(std::move(fork));
  }
  void close_fork(std::size_t thread) {
    if (!forks_.empty()) close_fork(thread, random_.below(forks_.size()));
  }
  /// On the thread whose stream the parent is, where it is one's.
  void close_fork(std::size_t any_thread, std::size_t index) {
    OpenFork fork = take_out(forks_, index);
    const std::size_t thread = fork.parent.thread.value_or(any_thread);
    const bool joins = random_.below(2) == 0;
    on(thread, [&] {
      if (joins) fork.scope->join();
      fork.scope.reset();
    });
    StreamPoolModel& model = pools_[fork.parent.device];
    for (const NamedStream& side : fork.sides) {
      order_.wait(fork.parent.lane, Before(order_.mark(side.lane)));
      model.gave_back(thread_ids_[thread], fork.priority, side.ref.native());
      side_streams_.erase(std::ranges::find(side_streams_, side.lane, &NamedStream::lane));
    }
    model.forget_last();
  }

  std::vector<OpenFork> forks_;
};

}  // namespace berth::test
