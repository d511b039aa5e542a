// SPDX-License-Identifier: Apache-2.0
// Two devices with bounded pools, some threads of the host, the streams that a program can name,
// and bytes that its work shares. What the program does to them is in stream_model_test.cpp.
//
// The threads take turns, so that a seed means the same every time.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "berth/current_stream.hpp"

#include "model/random_program.hpp"
#include "model/stream_pool_model.hpp"
#include "model/work_order.hpp"
#include "support/second_thread.hpp"
#include "support/simulation.hpp"

namespace berth::test {

inline constexpr std::size_t kDevices = 2;
inline constexpr std::size_t kThreads = 3;  ///< the first is the test's own
inline constexpr std::size_t kSharedBytes = 256;

/// A stream as one thread can name it.
struct NamedStream {
  StreamRef ref;
  Lane lane;
  std::size_t device;
  std::optional<std::size_t> thread;  ///< which alone can: per-thread default streams
};

/// A lease of a stream pool.
struct HeldStream {
  StreamLease lease;
  NamedStream stream;
  int priority;
};

/// An event of a pool, or the program's own.
struct HeldEvent {
  std::optional<EventLease> lease;
  std::optional<Event> owned;
  std::size_t device;
  bool timing;
  std::optional<Before> mark;  ///< what was recorded since it is held
  [[nodiscard]] EventRef ref() const { return lease ? lease->ref() : owned->ref(); }
};

/// A stream that the program made, by berth or by the driver.
struct OwnStream {
  NamedStream stream;
  std::optional<Stream> owner;
};

struct PooledEvent {
  std::size_t device;
  bool timing;
};

struct Use {
  SharedBytes* bytes;
  bool writes;
};

class StreamWorld : public RandomProgram {
 public:
  StreamWorld(std::uint64_t seed, sim::Progress progress, StreamPoolOptions pool)
      : RandomProgram(seed),
        pool_options_(pool),
        simulation_(config(seed, progress), options(pool)),
        runtime_(*simulation_.runtime) {
    for (std::size_t device = 0; device < kDevices; ++device) {
      pools_.emplace_back(pool);
      const DeviceGuard guard(runtime_.devices(), named(device));
      REQUIRE(sim::berth_sim_cuCtxGetCurrent(&contexts_[device]) == CUDA_SUCCESS);
      int least = 0;
      REQUIRE(sim::berth_sim_cuCtxGetStreamPriorityRange(&least, &priority_min_) == CUDA_SUCCESS);
      add_shared_bytes(device);
      const Lane lane = order_.new_lane(int(device), LaneKind::legacy);
      add({runtime_.default_stream(named(device)), lane, device, {}});
    }
    for (std::size_t thread = 0; thread < kThreads; ++thread) begin_thread(thread);
  }
  virtual ~StreamWorld() {
    for (SecondThread& thread : threads_) thread.end();
    held_.clear();
    events_.clear();
    for (OwnStream& own : own_) destroy_native(own);
    for (std::size_t device = 0; device < kDevices; ++device) {
      const RawContext raw(contexts_[device]);
      CHECK(sim::berth_sim_cuCtxSynchronize() == CUDA_SUCCESS);
      for (const SharedBytes& bytes : bytes_) {
        if (bytes.device != int(device)) continue;
        CHECK((bytes.on_host ? sim::berth_sim_cuMemFreeHost(reinterpret_cast<void*>(bytes.address))
                             : sim::berth_sim_cuMemFree(bytes.address)) == CUDA_SUCCESS);
      }
    }
  }

  [[nodiscard]] std::uint64_t order_hash() const { return simulation_.simulator.order_hash(); }

 protected:
  /// The primary context of a device, for calls of the driver's own.
  class RawContext {
   public:
    explicit RawContext(CUcontext context) {
      REQUIRE(sim::berth_sim_cuCtxPushCurrent(context) == CUDA_SUCCESS);
    }
    ~RawContext() {
      CUcontext popped = nullptr;
      CHECK(sim::berth_sim_cuCtxPopCurrent(&popped) == CUDA_SUCCESS);
    }
    RawContext(const RawContext&) = delete;
    RawContext& operator=(const RawContext&) = delete;
  };

  static sim::Config config(std::uint64_t seed, sim::Progress progress) {
    sim::Config config;
    config.devices = int(kDevices);
    config.progress = progress;
    config.seed = seed;
    config.jitter_percent = 50;
    return config;
  }
  static RuntimeOptions options(StreamPoolOptions pool) {
    RuntimeOptions options;
    options.stream_pool = pool;
    return options;
  }
  static Device named(std::size_t device) { return Device::cuda(int(device)); }

  // Threads.

  /// Runs `action` on a thread and waits for it. What it throws is thrown here.
  template <class Action>
  void on(std::size_t thread, const Action& action) {
    if (thread == 0) return action();
    std::exception_ptr thrown;
    threads_[thread - 1].run([&] {
      INFO(where_);
      try {
        action();
      } catch (...) {
        thrown = std::current_exception();
      }
    });
    if (thrown) std::rethrow_exception(thrown);
  }
  [[nodiscard]] std::size_t some_thread() { return random_.below(kThreads); }

  void begin_thread(std::size_t thread) {
    thread_ids_[thread] = ++threads_begun_;
    for (std::size_t device = 0; device < kDevices; ++device) {
      const Lane lane = order_.new_lane(int(device), LaneKind::blocking);
      add({runtime_.per_thread_default_stream(named(device)), lane, device, thread});
      on(thread, [&] {  // which has it once the driver was asked about it
        const RawContext raw(contexts_[device]);
        CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
        REQUIRE(sim::berth_sim_cuStreamIsCapturing(CU_STREAM_PER_THREAD, &status) == CUDA_SUCCESS);
      });
    }
  }
  /// One of the others than the test's own ends; what it had open must be closed.
  void end_thread(std::size_t thread) {
    threads_[thread - 1].end();
    std::erase_if(named_, [&](const auto& each) {
      if (each.second.thread != thread) return false;
      order_.retire(each.first);
      return true;
    });
  }

  // Streams.

  void add(const NamedStream& stream) { named_.emplace(stream.lane, stream); }
  /// A stream of a pool is the same one to every lease.
  NamedStream pooled(StreamRef ref, std::size_t device) {
    const auto [place, is_new] = pooled_lanes_.try_emplace(ref.native());
    if (is_new) {
      place->second = order_.new_lane(int(device), LaneKind::apart);
      add({ref, place->second, device, {}});
    }
    return {ref, place->second, device, {}};
  }
  /// The stream of a lane, where `thread` can name it and it is not captured.
  [[nodiscard]] const NamedStream* find(Lane lane, std::size_t thread) const {
    const auto found = named_.find(lane);
    if (found == named_.end() || captured_.contains(lane)) return nullptr;
    return found->second.thread.value_or(thread) == thread ? &found->second : nullptr;
  }
  /// Any that `thread` may use now: leased, made, default, or on the side of an open fork.
  [[nodiscard]] NamedStream some_stream(std::size_t thread) {
    std::vector<NamedStream> streams;
    const auto offer = [&](const NamedStream& stream) {
      if (find(stream.lane, thread) != nullptr) streams.push_back(stream);
    };
    for (const HeldStream& held : held_) offer(held.stream);
    for (const OwnStream& own : own_) offer(own.stream);
    for (const NamedStream& side : side_streams_) offer(side);
    for (const auto& [lane, stream] : named_) {
      const bool is_default = stream.ref.is_legacy_default() || stream.ref.is_per_thread_default();
      if (is_default) offer(stream);
    }
    return streams[random_.below(streams.size())];
  }
  void destroy_native(OwnStream& own) {
    if (own.owner) {
      own.owner.reset();
      ++streams_destroyed_;
      return;
    }
    const RawContext raw(contexts_[own.stream.device]);
    CHECK(sim::berth_sim_cuStreamDestroy(own.stream.ref.native()) == CUDA_SUCCESS);
  }

  [[nodiscard]] StreamPool& pool(std::size_t device) { return runtime_.streams(named(device)); }
  [[nodiscard]] int some_priority() {
    constexpr std::array kPriorities = {0, -1, -2, -1'000'000};
    return kPriorities[random_.below(kPriorities.size())];
  }
  [[nodiscard]] int clamped(int priority) const { return std::max(priority, priority_min_); }

  // Work.

  /// Submits work behind what is in order by now.
  void submit(std::size_t thread, const NamedStream& stream, const std::vector<Use>& uses) {
    const std::uint64_t duration_ns = random_.below(20'000);
    run_and_note(thread, stream, uses, [&] {
      std::vector<sim::MemoryUse> memory;
      for (const Use& use : uses) memory.push_back({use.bytes->address, kSharedBytes, use.writes});
      REQUIRE(simulation_.simulator.launch(stream.ref.native(), duration_ns, memory));
    });
  }
  /// `launch` submits work that uses `uses`; what says that it has run goes behind it.
  template <class Launch>
  void run_and_note(std::size_t thread, const NamedStream& stream, const std::vector<Use>& uses,
                    const Launch& launch) {
    const Work work = order_.submit(stream.lane);
    for (const Use& use : uses) use.bytes->used(work, use.writes);
    on(thread, [&] {
      const RawContext raw(contexts_[stream.device]);
      launch();
      REQUIRE(sim::berth_sim_cuLaunchHostFunc(stream.ref.native(), &WorkOrder::run,
                                              order_.last_submitted()) == CUDA_SUCCESS);
    });
  }
  [[nodiscard]] SharedBytes& some_bytes(std::size_t device) {
    for (;;) {
      SharedBytes& bytes = bytes_[random_.below(bytes_.size())];
      if (bytes.on_host || bytes.device == int(device)) return bytes;
    }
  }

  // Events.

  [[nodiscard]] EventPool& events(std::size_t device) { return runtime_.events(named(device)); }
  void note_leased_event(EventRef event, std::size_t device, bool timing) {
    CHECK(event.device() == named(device));
    const auto known = pooled_events_.try_emplace(event.native(), PooledEvent{device, timing});
    CHECK(known.first->second.timing == timing);
    CHECK(known.first->second.device == device);
    for (const HeldEvent& held : events_) CHECK(held.ref() != event);
  }

  // What must hold.

  void check() {
    for (std::size_t device = 0; device < kDevices; ++device) {
      CHECK(pool(device).leases_live() == pools_[device].live());
      CHECK(pool(device).streams_created() == pools_[device].created());
      const auto held = std::size_t(std::ranges::count_if(
          events_, [&](const HeldEvent& event) { return event.lease && event.device == device; }));
      CHECK(events(device).leases_live() == held);
    }
    CHECK(order_.first_problem().empty());
    for (const std::string& finding : simulation_.simulator.take_findings()) FAIL_CHECK(finding);
  }
  /// Nothing waits on the host but where the program says so; nothing is made twice or goes.
  void check_driver_calls() {
    std::size_t streams = streams_made_;
    std::size_t events = events_made_;
    for (std::size_t device = 0; device < kDevices; ++device) {
      streams += pool(device).streams_created();
      events += this->events(device).events_created();
    }
    CHECK(driver_calls(runtime_, "cuStreamCreateWithPriority") == streams);
    // Callbacks have events of their own, which are used again.
    const std::uint64_t events_created = driver_calls(runtime_, "cuEventCreate");
    CHECK(events_created >= events);
    CHECK(events_created - events <= callbacks_submitted_);
    CHECK(driver_calls(runtime_, "cuStreamDestroy") == streams_destroyed_);
    CHECK(driver_calls(runtime_, "cuEventDestroy") == events_destroyed_);
    CHECK(driver_calls(runtime_, "cuStreamSynchronize") == stream_syncs_);
    CHECK(driver_calls(runtime_, "cuEventSynchronize") == event_syncs_);
    CHECK(driver_calls(runtime_, "cuCtxSynchronize") == 0);
  }
  [[nodiscard]] bool callbacks_pending() const { return callbacks_called_ != callbacks_submitted_; }

  const StreamPoolOptions pool_options_;
  std::string where_;  ///< of the run, for what fails on another thread
  std::set<Lane> captured_;
  WorkOrder order_;
  std::uint64_t callbacks_submitted_ = 0;
  std::atomic<std::uint64_t> callbacks_called_ = 0;
  std::array<SecondThread, kThreads - 1> threads_;
  Simulation simulation_;
  Runtime& runtime_;

  std::array<CUcontext, kDevices> contexts_{};
  int priority_min_ = 0;
  std::vector<StreamPoolModel> pools_;  ///< by device
  std::vector<SharedBytes> bytes_;
  std::map<Lane, NamedStream> named_;
  std::map<CUstream_st*, Lane> pooled_lanes_;
  std::vector<NamedStream> side_streams_;  ///< of open forks
  std::vector<HeldStream> held_;
  std::vector<OwnStream> own_;
  std::vector<HeldEvent> events_;
  std::map<CUevent_st*, PooledEvent> pooled_events_;  ///< that were ever leased
  std::array<std::size_t, kThreads> thread_ids_{};
  std::size_t threads_begun_ = 0;

  // Driver calls that the program itself asked berth for.
  std::size_t streams_made_ = 0;
  std::size_t streams_destroyed_ = 0;
  std::size_t events_made_ = 0;
  std::size_t events_destroyed_ = 0;
  std::size_t stream_syncs_ = 0;
  std::size_t event_syncs_ = 0;

 private:
  /// Some on the device, and some that the streams of all devices use.
  void add_shared_bytes(std::size_t device) {
    for (int index = 0; index < 2; ++index) {
      CUdeviceptr address = 0;
      REQUIRE(sim::berth_sim_cuMemAlloc(&address, kSharedBytes) == CUDA_SUCCESS);
      bytes_.push_back({.address = address, .device = int(device), .on_host = false});
      void* pinned = nullptr;
      REQUIRE(sim::berth_sim_cuMemHostAlloc(&pinned, kSharedBytes, CU_MEMHOSTALLOC_PORTABLE) ==
              CUDA_SUCCESS);
      address = reinterpret_cast<CUdeviceptr>(pinned);
      bytes_.push_back({.address = address, .device = int(device), .on_host = true});
    }
  }
};

}  // namespace berth::test
