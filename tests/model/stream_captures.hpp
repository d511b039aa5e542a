// SPDX-License-Identifier: Apache-2.0
// What a random program does within a capture: forks, joins and marks that become part of the
// graph, and questions that are refused and must leave the capture as it was. The graph then runs
// as one piece of work among the others.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <map>
#include <memory>
#include <vector>

#include "model/stream_leases.hpp"
#include "support/captured_graph.hpp"

namespace berth::test {

class StreamCaptures : public StreamLeases {
 public:
  using StreamLeases::StreamLeases;

 protected:
  /// Something that the program does meanwhile, with what is not captured.
  virtual void beside_capture(std::size_t thread) = 0;
  /// Lets `stream` wait for what must come before `uses`; false where it cannot.
  virtual bool bring_into_order(std::size_t thread, const NamedStream& stream,
                                const std::vector<Use>& uses) = 0;

  /// A capture on a leased stream, from its beginning to its end.
  void capture(std::size_t thread) {
    if (held_.empty() || !captured_.empty()) return;
    const NamedStream origin = held_[random_.below(held_.size())].stream;
    constexpr std::array kModes = {CU_STREAM_CAPTURE_MODE_GLOBAL,
                                   CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
                                   CU_STREAM_CAPTURE_MODE_RELAXED};
    const CUstreamCaptureMode mode = kModes[random_.below(kModes.size())];
    Capture capture(*this, thread, origin);
    on(thread, [&] {
      CHECK_FALSE(origin.ref.is_capturing());
      begin_capture(origin.ref, mode);
    });
    for (std::size_t left = 2 + random_.below(8); left > 0; --left) {
      capture.step();
      if (mode == CU_STREAM_CAPTURE_MODE_RELAXED) beside_capture(some_thread());
      if (mode == CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)
        beside_capture((thread + 1 + random_.below(kThreads - 1)) % kThreads);
    }
    const std::vector<Use> uses = capture.finish();
    std::unique_ptr<CapturedGraph> graph;
    on(thread, [&] {
      graph = std::make_unique<CapturedGraph>(origin.ref);
      CHECK_FALSE(origin.ref.is_capturing());
    });
    pools_[origin.device].capture_ended();
    for (std::size_t runs = random_.below(3); runs > 0; --runs) {
      if (bring_into_order(thread, origin, uses))
        run_and_note(thread, origin, uses, [&] { graph->launch(); });
    }
    on(thread, [&] { graph.reset(); });
  }

 private:
  struct SideFork {
    std::unique_ptr<ForkJoin> scope;
    NamedStream parent;
    std::vector<NamedStream> sides;
    int priority;
  };

  /// One capture, with an order of its own: that within the graph.
  class Capture {
   public:
    Capture(StreamCaptures& world, std::size_t thread, const NamedStream& origin)
        : world_(world), thread_(thread), device_(origin.device) {
      enter(origin);
      for (int index = 0; index < 3; ++index) {
        SharedBytes& bytes = world.some_bytes(device_);
        bytes_.emplace(&bytes, SharedBytes{.address = bytes.address});
      }
    }

    void step() {
      static constexpr Operation<Capture> kOperations[] = {
          {1, "fork", &Capture::fork},
          {1, "join", &Capture::join_innermost},
          {1, "mark and wait", &Capture::mark_and_wait},
          {1, "refuse", &Capture::refuse},
          {4, "use", &Capture::use},
      };
      (this->*choose(kOperations, world_.random_).run)();
    }

    /// Joins what is forked; what the graph uses.
    std::vector<Use> finish() {
      while (!forks_.empty()) join_innermost();
      world_.captured_.clear();
      std::vector<Use> uses;
      for (const auto& [outside, inside] : bytes_) {
        const bool writes = inside.last_write.number > 0;
        if (writes || !inside.reads.empty()) uses.push_back({outside, writes});
      }
      return uses;
    }

   private:
    void enter(const NamedStream& stream) {
      streams_.push_back(stream);
      lanes_.try_emplace(stream.lane, order_.new_lane(0, LaneKind::apart));
      world_.captured_.insert(stream.lane);
    }
    [[nodiscard]] Lane inside(const NamedStream& stream) const { return lanes_.at(stream.lane); }
    [[nodiscard]] const NamedStream& some_stream() {
      return streams_[world_.random_.below(streams_.size())];
    }
    [[nodiscard]] bool is_captured(const NamedStream& stream) const {
      return std::ranges::any_of(streams_,
                                 [&](const NamedStream& each) { return each.lane == stream.lane; });
    }
    void join(const NamedStream& waiter, const NamedStream& stream) {
      world_.runtime_.join(waiter.ref, {stream.ref});
      order_.wait(inside(waiter), order_.mark(inside(stream)));
    }

    void use() {
      const NamedStream stream = some_stream();
      auto bytes = bytes_.begin();
      std::advance(bytes, std::ptrdiff_t(world_.random_.below(bytes_.size())));
      const bool writes = world_.random_.below(2) == 0;
      world_.on(thread_, [&] {
        for (const Work work : bytes->second.conflicts(writes)) {
          for (const NamedStream& other : streams_) {
            const bool is_ordered = order_.before_next(inside(stream)).includes(work);
            if (!is_ordered && inside(other) == work.lane) join(stream, other);
          }
        }
        const Before before = order_.before_next(inside(stream));
        if (!std::ranges::all_of(bytes->second.conflicts(writes),
                                 [&](Work work) { return before.includes(work); }))
          return;  // of a side stream that is joined, and not into this one
        bytes->second.used(order_.submit(inside(stream)), writes);
        const RawContext raw(world_.contexts_[device_]);
        REQUIRE(world_.simulation_.simulator.launch(
            stream.ref.native(), 1000, {{bytes->second.address, kSharedBytes, writes}}));
      });
    }

    /// No more side streams than the pool has: one stream twice in a capture would be no capture.
    void fork() {
      StreamPoolModel& model = world_.pools_[device_];
      const int priority = world_.clamped(world_.some_priority());
      const std::size_t count = std::min(world_.random_.below(3), model.streams_left(priority));
      SideFork side{{}, some_stream(), {}, priority};
      world_.on(thread_, [&] {
        side.scope = std::make_unique<ForkJoin>(side.parent.ref, world_.pool(device_),
                                                world_.events(device_), count, priority);
      });
      REQUIRE(side.scope->size() == count);
      const std::size_t created = world_.pool(device_).streams_created();
      const Before mark = order_.mark(inside(side.parent));
      model.forget_last();
      for (const StreamRef ref : side.scope->streams()) {
        model.acquired(world_.thread_ids_[thread_], priority, ref.native(), created);
        side.sides.push_back(world_.pooled(ref, device_));
        REQUIRE_FALSE(is_captured(side.sides.back()));
        enter(side.sides.back());
        order_.wait(inside(side.sides.back()), mark);
        world_.on(thread_, [&] { CHECK(ref.is_capturing()); });
      }
      forks_.push_back(std::move(side));
    }
    void join_innermost() {
      if (forks_.empty()) return;
      SideFork side = std::move(forks_.back());
      forks_.pop_back();
      world_.on(thread_, [&] { side.scope.reset(); });
      StreamPoolModel& model = world_.pools_[device_];
      for (const NamedStream& each : side.sides) {
        order_.wait(inside(side.parent), order_.mark(inside(each)));
        model.gave_back_captured(side.priority, each.ref.native());
        std::erase_if(streams_, [&](const NamedStream& other) { return other.lane == each.lane; });
      }
      model.forget_last();
      lease_beside(side.priority);
    }

    /// Nobody gets what is still captured.
    void lease_beside(int priority) {
      StreamPoolModel& model = world_.pools_[device_];
      if (model.next(priority) != Next::alone) return;
      const std::size_t other = world_.some_thread();
      CUstream_st* native = nullptr;
      world_.on(other, [&] {
        const StreamLease lease = world_.pool(device_).acquire(priority);
        native = lease.ref().native();
        CHECK_FALSE(lease->is_capturing());
        model.acquired(world_.thread_ids_[other], priority, native,
                       world_.pool(device_).streams_created());
      });
      model.gave_back(world_.thread_ids_[other], priority, native);
    }

    void mark_and_wait() {
      const NamedStream from = some_stream();
      const NamedStream to = some_stream();
      world_.on(thread_, [&] {
        const EventLease mark = world_.runtime_.record(from.ref);
        message_of<StreamCaptured>([&] { return mark->is_done(); });
        message_of<StreamCaptured>([&] { mark->sync(); });
        to.ref.wait(mark);
      });
      const Before mark = order_.mark(inside(from));
      order_.wait(inside(to), mark);
    }

    void refuse() {
      const NamedStream stream = some_stream();
      const NamedStream outside = world_.some_stream(thread_);
      world_.on(thread_, [&] {
        message_of<StreamCaptured>([&] { return stream.ref.is_done(); });
        message_of<StreamCaptured>([&] { stream.ref.sync(); });
        message_of<StreamCaptured>([&] {
          world_.runtime_.completions().when_done(stream.ref, [](const std::exception_ptr&) {});
        });
        if (outside.device == device_) {
          message_of<StreamCaptured>([&] {
            world_.runtime_.join(stream.ref, {stream.ref, outside.ref});
          });
        }
        CHECK(stream.ref.is_capturing());
        CHECK(capture_status(stream.ref) == CU_STREAM_CAPTURE_STATUS_ACTIVE);
      });
    }

    StreamCaptures& world_;
    const std::size_t thread_;
    const std::size_t device_;
    WorkOrder order_;
    std::vector<NamedStream> streams_;  ///< that take part now
    std::map<Lane, Lane> lanes_;        ///< in the order of the capture, by that of the program
    std::map<SharedBytes*, SharedBytes> bytes_;
    std::vector<SideFork> forks_;
  };
};

}  // namespace berth::test
