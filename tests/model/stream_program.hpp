// SPDX-License-Identifier: Apache-2.0
// A random program of streams and events: each step does one thing on one thread, and tells the
// model what it means.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <unistd.h>
#include <utility>
#include <vector>

#include "model/stream_host.hpp"
#include "support/child_process.hpp"

namespace berth::test {

class StreamProgram : public StreamHost {
 public:
  StreamProgram(std::string where, std::uint64_t seed, sim::Progress progress,
                StreamPoolOptions pool, bool callbacks)
      : StreamHost(seed, progress, pool, callbacks) {
    where_ = std::move(where);
  }

  void step() {
    const std::size_t thread = some_thread();
    static constexpr Operation<StreamProgram, std::size_t> kOperations[] = {
        {3, "lease a stream", &StreamProgram::lease_stream},
        {2, "give a stream back", &StreamProgram::give_stream_back},
        {1, "lease an event", &StreamProgram::lease_event},
        {1, "give an event back", &StreamProgram::give_event_back},
        {3, "record", &StreamProgram::record},
        {2, "wait", &StreamProgram::wait},
        {2, "join", &StreamProgram::join},
        {2, "open a fork", &StreamProgram::open_fork},
        {2, "close a fork", &StreamProgram::close_fork},
        {1, "open a guard", &StreamProgram::open_guard},
        {1, "close a guard", &StreamProgram::close_guard},
        {1, "ask an event", &StreamProgram::ask_event},
        {1, "make or destroy a stream", &StreamProgram::make_or_destroy_stream},
        {1, "ask for a callback", &StreamProgram::ask_for_callback},
        {1, "capture", &StreamProgram::capture},
        {1, "rarely", &StreamProgram::rarely},
        {15, "use bytes", &StreamProgram::use_bytes},
    };
    do_one_of(kOperations, thread);
    check();
    if (random_.one_in(16)) check_driver_calls();
  }

  /// Everything goes back; then nothing is lost, and nothing is made where it exists.
  void finish() {
    for (std::size_t thread = 0; thread < kThreads; ++thread) close_what_is_of(thread);
    while (!forks_.empty()) close_fork(some_thread(), forks_.size() - 1);
    while (!events_.empty()) give_event_back(some_thread());
    while (!held_.empty()) give_stream_back(some_thread());
    check();
    for (std::size_t thread = 1; thread < kThreads; ++thread) renew_thread(thread);
    settle();
    check();
    check_nothing_is_lost();
    check_driver_calls();

    round(1);  // what it needs may be more than the program did
    for (std::size_t thread = 1; thread < kThreads; ++thread) renew_thread(thread);
    const std::uint64_t before_first = driver_calls(runtime_);
    const Created created = all_created();
    round(1);
    const std::uint64_t before_second = driver_calls(runtime_);
    round(1);
    CHECK(driver_calls(runtime_) - before_second == before_second - before_first);
    CHECK(all_created() == created);
    settle();
    check();
  }

 protected:
  void beside_capture(std::size_t thread) override {
    static constexpr Operation<StreamProgram, std::size_t> kOperations[] = {
        {1, "lease a stream beside a capture", &StreamProgram::lease_stream},
        {1, "give a stream back beside a capture", &StreamProgram::give_stream_back},
        {1, "record beside a capture", &StreamProgram::record},
        {1, "ask an event beside a capture", &StreamProgram::ask_event},
        {2, "use bytes beside a capture", &StreamProgram::use_bytes},
    };
    do_one_of(kOperations, thread);
  }

 private:
  struct Created {
    std::size_t streams = 0;
    std::size_t events = 0;
    bool operator==(const Created&) const = default;
  };

  // What happens now and then.

  void rarely(std::size_t thread) {
    static constexpr Operation<StreamProgram, std::size_t> kOperations[] = {
        {1, "wait on the host", &StreamProgram::wait_on_host},
        {1, "ask a stream", &StreamProgram::ask_stream},
        {2, "end a thread", &StreamProgram::replace_thread},
        {1, "throw away", &StreamProgram::throw_away},
        {1, "fork the process", &StreamProgram::maybe_fork_process},
        {1, "settle", &StreamProgram::maybe_settle},
        {1, "refuse", &StreamProgram::refuse},
    };
    do_one_of(kOperations, thread);
  }
  void replace_thread(std::size_t thread) {
    if (thread == 0) return;
    close_what_is_of(thread);
    if (random_.below(2) == 0) throw_away(thread);
    renew_thread(thread);
  }
  void maybe_fork_process(std::size_t) {
    if (random_.one_in(3)) fork_process();
  }
  void maybe_settle(std::size_t) {
    if (random_.one_in(3)) settle();
  }

  void make_or_destroy_stream(std::size_t thread) {
    if (own_.size() < 3) {
      const std::size_t device = random_.below(kDevices);
      const bool blocks = random_.below(2) == 0;
      std::optional<Stream> owner;
      CUstream native = nullptr;
      on(thread, [&] {
        if (random_.below(2) == 0) {
          owner.emplace(runtime_.create_stream(
              named(device), {.priority = 0, .blocks_with_legacy_default = blocks}));
          ++streams_made_;
        } else {
          const RawContext raw(contexts_[device]);
          REQUIRE(sim::berth_sim_cuStreamCreateWithPriority(
                      &native, blocks ? CU_STREAM_DEFAULT : CU_STREAM_NON_BLOCKING, 0) ==
                  CUDA_SUCCESS);
        }
      });
      const StreamRef ref = owner ? owner->ref() : runtime_.stream(named(device), native);
      const Lane lane = order_.new_lane(int(device), blocks ? LaneKind::blocking : LaneKind::apart);
      own_.push_back({{ref, lane, device, {}}, std::move(owner)});
      add(own_.back().stream);
      return;
    }
    const std::size_t index = random_.below(own_.size());
    const Lane lane = own_[index].stream.lane;
    if (std::ranges::any_of(forks_, [&](const OpenFork& fork) { return fork.parent.lane == lane; }))
      return;
    OwnStream own = take_out(own_, index);
    on(thread, [&] { destroy_native(own); });
    named_.erase(lane);
    order_.retire(lane);
  }
  void close_what_is_of(std::size_t thread) {
    close_guards(thread);
    for (std::size_t index = forks_.size(); index-- > 0;) {
      if (forks_[index].parent.thread == thread) close_fork(thread, index);
    }
  }
  void renew_thread(std::size_t thread) {
    end_thread(thread);
    begin_thread(thread);
  }

  /// Each is refused, and nothing has changed.
  void refuse(std::size_t thread) {
    const std::size_t device = random_.below(kDevices);
    const NamedStream stream = some_stream(thread);
    const StreamRef elsewhere = runtime_.default_stream(named(1 - device));
    on(thread, [&] {
      message_of<InvalidArgument>([&] { return pool(device).acquire(1); });
      message_of<InvalidArgument>([&] { return events(device).acquire({.interprocess = true}); });
      message_of<InvalidArgument>([&] { pool(device).give_back(elsewhere); });
      if (stream.ref != elsewhere)
        message_of<InvalidArgument>([&] { berth::join(events(device), stream.ref, {elsewhere}); });
      message_of<InvalidArgument>([&] { const auto side = runtime_.fork(stream.ref, 1, 1); });
      message_of<InvalidArgument>([&] { runtime_.completions().when_done(stream.ref, {}); });
    });
  }

  /// In the child, acquiring fails at once, and returning has no effect.
  void fork_process() {
    StreamPool* const streams[] = {&pool(0), &pool(1)};
    EventPool* const marks[] = {&events(0), &events(1)};
    const auto code = exit_code_of([&] {
      alarm(kHangSeconds);  // ends a child that waits
      bool refused = true;
      for (std::size_t device = 0; device < kDevices; ++device) {
        for (int priority = priority_min_; priority <= 0; ++priority)
          refused &= is_refused_after_fork([&] { (void)streams[device]->acquire(priority); });
        for (const bool timing : {false, true})
          refused &= is_refused_after_fork([&] { (void)marks[device]->acquire({timing}); });
      }
      refused &= is_refused_after_fork([&] {
        runtime_.completions().when_done(runtime_.default_stream(named(0)),
                                         [](const std::exception_ptr&) {});
      });
      held_.clear();
      for (HeldEvent& held : events_) held.lease.reset();
      _exit(refused ? 0 : 1);
      return 0;
    });
    CHECK(code == 0);
  }

  /// As a program goes round: streams of every priority, marks, a join, a fork in a fork.
  void round(std::size_t thread) {
    on(thread, [&] {
      for (std::size_t device = 0; device < kDevices; ++device) {
        std::vector<StreamLease> leases;
        std::vector<EventLease> marks;
        for (int priority = priority_min_; priority <= 0; ++priority)
          leases.push_back(pool(device).acquire(priority));
        for (const StreamLease& lease : leases) marks.push_back(runtime_.record(lease));
        marks.push_back(events(device).acquire({.timing = true}));
        runtime_.join(leases[0].ref(), {leases[1].ref(), leases[2].ref()});
        leases.clear();
        ForkJoin side = runtime_.fork(runtime_.default_stream(named(device)), 1);
        const ForkJoin nested = runtime_.fork(side[0], 1, priority_min_);
      }
    });
    for (std::size_t device = 0; device < kDevices; ++device) {
      for (int priority = priority_min_; priority <= 0; ++priority)
        REQUIRE(pools_[device].created(priority) >= pool_options_.streams_max);
      pools_[device].forget_last();
    }
  }
  [[nodiscard]] Created all_created() {
    Created created;
    for (std::size_t device = 0; device < kDevices; ++device) {
      created.streams += pool(device).streams_created();
      created.events += events(device).events_created();
    }
    return created;
  }
};

}  // namespace berth::test
