// SPDX-License-Identifier: Apache-2.0
// Threads that come and go share pools, streams and bytes. Whoever takes a baton may use its bytes
// behind its mark, and hands it on with a mark of its own; nothing else orders that work. What the
// threads do is random, how they meet is the machine's: so this holds what is true of every way
// they meet.
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "model/random_program.hpp"
#include "support/simulation.hpp"

namespace streams_threads_test {

using namespace berth;
using namespace berth::test;

namespace {

constexpr std::size_t kThreads = 4;
constexpr std::size_t kLivesEach = 3;
constexpr std::size_t kSteps = 40;
constexpr std::size_t kStreamsMax = 3;
constexpr std::size_t kPriorities = 2;
constexpr std::size_t kBatonBytes = 64;
const std::array kDevices = {Device::cuda(0), Device::cuda(1)};

/// Bytes, and what marks the work that used them last.
struct Baton {
  CUdeviceptr address = 0;
  std::optional<EventLease> mark;
  std::uint64_t uses = 0;  ///< submitted
  std::atomic<std::uint64_t> uses_run = 0;
};

struct StreamOfLife {
  StreamLease lease;
  std::size_t device;
};

class Threads {
 public:
  Threads(std::uint64_t seed, sim::Progress progress, StreamShortage policy)
      : seed_(seed), policy_(policy), simulation_(config(seed, progress), options(policy)) {
    for (std::size_t device = 0; device < kDevices.size(); ++device) {
      const DeviceGuard guard(runtime_.devices(), kDevices[device]);
      REQUIRE(sim::berth_sim_cuCtxGetCurrent(&contexts_[device]) == CUDA_SUCCESS);
    }
    const InContext in(contexts_[0]);
    for (Baton& baton : batons_) {
      void* pinned = nullptr;
      REQUIRE(sim::berth_sim_cuMemHostAlloc(&pinned, kBatonBytes, CU_MEMHOSTALLOC_PORTABLE) ==
              CUDA_SUCCESS);
      baton.address = reinterpret_cast<CUdeviceptr>(pinned);
      waiting_.push_back(&baton);
    }
  }
  ~Threads() {
    const InContext in(contexts_[0]);
    for (const Baton& baton : batons_)
      CHECK(sim::berth_sim_cuMemFreeHost(reinterpret_cast<void*>(baton.address)) == CUDA_SUCCESS);
  }
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;

  void run() {
    std::vector<std::thread> threads;
    for (std::size_t thread = 0; thread < kThreads; ++thread) {
      threads.emplace_back([this, thread] {
        for (std::size_t life = 0; life < kLivesEach; ++life) {
          std::thread([&] { Life(*this, seed_ * 100 + thread * kLivesEach + life).live(); }).join();
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    check_end();
  }

 private:
  struct Thrown {};
  struct Entry {
    Threads* threads;
    Baton* baton;
    std::uint64_t use;
  };

  class InContext {
   public:
    explicit InContext(CUcontext context) {
      REQUIRE(sim::berth_sim_cuCtxPushCurrent(context) == CUDA_SUCCESS);
    }
    ~InContext() {
      CUcontext popped = nullptr;
      CHECK(sim::berth_sim_cuCtxPopCurrent(&popped) == CUDA_SUCCESS);
    }
    InContext(const InContext&) = delete;
    InContext& operator=(const InContext&) = delete;
  };

  /// A thread from its beginning to its end, which is sometimes an exception.
  class Life final : public RandomProgram {
   public:
    Life(Threads& all, std::uint64_t seed) : RandomProgram(seed), all_(all) {}
    ~Life() {
      while (!held_.empty()) give_back();
    }

    void live() {
      try {
        for (std::size_t step = 0; step < kSteps; ++step) this->step();
      } catch (const Thrown&) {
      }
    }

   private:
    void step() {
      static constexpr Operation<Life> kOperations[] = {
          {2, "lease", &Life::lease},
          {1, "give back", &Life::give_back},
          {1, "hand over", &Life::hand_over},
          {1, "fork", &Life::fork},
          {1, "ask for a callback", &Life::ask_for_callback},
          {1, "throw", &Life::maybe_throw},
          {1, "wait", &Life::maybe_wait},
          {4, "use a baton", &Life::use_last},
      };
      do_one_of(kOperations);
    }
    void maybe_throw() {
      if (random_.one_in(10)) throw Thrown{};
    }
    void maybe_wait() {
      if (!held_.empty() && random_.one_in(8)) held_.back().lease->sync();
    }
    void use_last() {
      if (!held_.empty()) use_baton(held_.back().lease, held_.back().device);
    }

    /// Who waits holds nothing, or all would wait for one another.
    void lease() {
      if (held_.size() >= (all_.policy_ == StreamShortage::wait ? 1 : 3)) return;
      const std::size_t device = random_.below(kDevices.size());
      const int priority = -int(random_.below(kPriorities));
      try {
        StreamLease lease = all_.pool(device).acquire(priority);
        all_.took(lease);
        held_.push_back({std::move(lease), device});
      } catch (const Exhausted&) {
        all_.wrong_if(all_.policy_ != StreamShortage::fail);
      }
    }
    void give_back() {
      if (held_.empty()) return;
      all_.gives_back(held_.back().lease);
      const std::size_t device = held_.back().device;
      StreamLease lease = std::move(held_.back().lease);
      held_.pop_back();
      if (random_.one_in(3)) all_.pool(device).give_back(lease.release());
    }
    /// A lease goes to whoever comes next, who gives it back.
    void hand_over() {
      if (held_.empty() || all_.policy_ == StreamShortage::wait) return;
      std::optional<StreamOfLife> before;
      {
        const std::lock_guard lock(all_.mutex_);
        before = std::exchange(all_.handed_over_, std::move(held_.back()));
        held_.pop_back();
      }
      if (before) held_.push_back(std::move(*before));
    }

    void fork() {
      if (held_.empty() || all_.policy_ == StreamShortage::wait) return;
      const StreamOfLife& parent = held_.back();
      try {
        ForkJoin outer = all_.runtime_.fork(parent.lease, random_.below(3));
        for (const StreamRef side : outer.streams()) all_.took(side);
        for (const StreamRef side : outer.streams()) use_baton(side, parent.device);
        for (const StreamRef side : outer.streams()) all_.gives_back(side);
        if (random_.below(2) == 0) outer.join();
      } catch (const Exhausted&) {
        all_.wrong_if(all_.policy_ != StreamShortage::fail);
      }
    }

    void use_baton(StreamRef stream, std::size_t device) {
      Baton* const baton = all_.take_baton();
      if (baton == nullptr) return;
      if (baton->mark) {
        if (random_.below(2) == 0) {
          stream.wait(*baton->mark);
        } else {
          const Event own(stream.context(), {});  // an order through a stream between
          const StreamRef between = all_.runtime_.per_thread_default_stream(kDevices[device]);
          between.wait(*baton->mark);
          own.ref().record(between);
          stream.wait(own);
        }
      }
      all_.submit(stream, device, *baton);
      baton->mark.reset();
      baton->mark.emplace(all_.runtime_.record(stream));
      all_.put_baton(*baton);
    }

    void ask_for_callback() {
      if (held_.empty()) return;
      Baton* const baton = all_.take_baton();
      if (baton == nullptr) return;
      const StreamOfLife& stream = held_.back();
      if (baton->mark) stream.lease->wait(*baton->mark);
      ++all_.callbacks_submitted_;
      all_.runtime_.completions().when_done(
          stream.lease, [&all = all_, device = stream.device, baton,
                         uses = baton->uses](const std::exception_ptr& failure) {
            const EventLease event = all.runtime_.events(kDevices[device]).acquire();
            all.wrong_if(failure != nullptr || baton->uses_run < uses);
            ++all.callbacks_called_;
          });
      all_.put_baton(*baton);
    }

    Threads& all_;
    std::vector<StreamOfLife> held_;
  };

  static sim::Config config(std::uint64_t seed, sim::Progress progress) {
    sim::Config config;
    config.devices = int(kDevices.size());
    config.progress = progress;
    config.seed = seed;
    return config;
  }
  static RuntimeOptions options(StreamShortage policy) {
    RuntimeOptions options;
    options.stream_pool = {.streams_max = kStreamsMax, .on_shortage = policy};
    return options;
  }
  void wrong_if(bool is_wrong) {
    if (is_wrong) is_wrong_ = true;
  }
  [[nodiscard]] StreamPool& pool(std::size_t device) { return runtime_.streams(kDevices[device]); }

  /// Where streams are not shared, nobody else has it.
  void took(StreamRef stream) {
    if (policy_ == StreamShortage::share) return;
    const std::lock_guard lock(mutex_);
    wrong_if(!in_use_.insert(stream.native()).second);
  }
  void gives_back(StreamRef stream) {
    const std::lock_guard lock(mutex_);
    in_use_.erase(stream.native());
  }

  Baton* take_baton() {
    const std::lock_guard lock(mutex_);
    if (waiting_.empty()) return nullptr;
    Baton* const baton = waiting_.front();
    waiting_.pop_front();
    return baton;
  }
  void put_baton(Baton& baton) {
    const std::lock_guard lock(mutex_);
    waiting_.push_back(&baton);
  }
  /// Work that uses the bytes, and says that it ran.
  void submit(StreamRef stream, std::size_t device, Baton& baton) {
    Entry* entry = nullptr;
    {
      const std::lock_guard lock(mutex_);
      entry = &entries_.emplace_back(Entry{this, &baton, ++baton.uses});
    }
    const InContext in(contexts_[device]);
    const std::vector<sim::MemoryUse> uses = {{baton.address, kBatonBytes, true}};
    wrong_if(!simulation_.simulator.launch(stream.native(), 1000, uses));
    wrong_if(sim::berth_sim_cuLaunchHostFunc(stream.native(), &Threads::ran, entry) !=
             CUDA_SUCCESS);
  }
  static void CUDA_CB ran(void* data) {
    const Entry& entry = *static_cast<const Entry*>(data);
    entry.threads->wrong_if(entry.baton->uses_run.exchange(entry.use) != entry.use - 1);
  }

  void check_end() {
    handed_over_.reset();
    for (Baton& baton : batons_) baton.mark.reset();
    for (const CUcontext context : contexts_) {
      const InContext in(context);
      REQUIRE(sim::berth_sim_cuCtxSynchronize() == CUDA_SUCCESS);
    }
    while (callbacks_called_ != callbacks_submitted_) std::this_thread::yield();
    runtime_.completions().finish();
    CHECK_FALSE(is_wrong_.load());
    for (const Baton& baton : batons_) CHECK(baton.uses_run == baton.uses);
    for (const std::string& finding : simulation_.simulator.take_findings()) FAIL_CHECK(finding);
    for (std::size_t device = 0; device < kDevices.size(); ++device) {
      StreamPool& streams = pool(device);
      EventPool& events = runtime_.events(kDevices[device]);
      CHECK(streams.leases_live() == 0);
      CHECK(events.leases_live() == 0);
      CHECK(streams.streams_created() <= kPriorities * kStreamsMax);
      // What threads kept that have ended is there for this one.
      const std::size_t created = streams.streams_created();
      std::vector<StreamLease> all;
      for (std::size_t priority = 0; priority < kPriorities; ++priority) {
        for (std::size_t lease = 0; lease < kStreamsMax; ++lease)
          all.push_back(streams.acquire(-int(priority)));
      }
      CHECK(streams.streams_created() == kPriorities * kStreamsMax);
      std::set<CUstream_st*> distinct;
      for (const StreamLease& lease : all) distinct.insert(lease.ref().native());
      CHECK(distinct.size() == all.size());
      CHECK(created <= distinct.size());
      const std::size_t events_created = events.events_created();
      std::vector<EventLease> marks;
      while (marks.size() < events_created) marks.push_back(events.acquire());
      CHECK(events.events_created() == events_created);
    }
  }

  const std::uint64_t seed_;
  const StreamShortage policy_;
  std::array<CUcontext, 2> contexts_{};
  std::array<Baton, 5> batons_;
  std::mutex mutex_;
  std::deque<Baton*> waiting_;     // guarded by mutex_
  std::deque<Entry> entries_;      // guarded by mutex_
  std::set<CUstream_st*> in_use_;  // guarded by mutex_
  std::atomic<bool> is_wrong_ = false;
  std::atomic<std::size_t> callbacks_submitted_ = 0;
  std::atomic<std::size_t> callbacks_called_ = 0;
  Simulation simulation_;
  Runtime& runtime_ = *simulation_.runtime;
  std::optional<StreamOfLife> handed_over_;  // guarded by mutex_
};

}  // namespace

TEST_CASE("short-lived threads keep stream order, and neither share nor lose streams") {
  for_each_seed([](std::uint64_t seed) {
    for (const auto progress :
         {sim::Progress::eager, sim::Progress::random, sim::Progress::timed}) {
      for (const StreamShortage policy :
           {StreamShortage::share, StreamShortage::wait, StreamShortage::fail}) {
        CAPTURE(int(progress));
        CAPTURE(int(policy));
        Threads(seed, progress, policy).run();
      }
    }
  });
}

}  // namespace streams_threads_test
