// SPDX-License-Identifier: Apache-2.0
// A process exits with an allocator that was not destroyed: its memory in use, cached or awaiting
// work, its threads allocating. Each program here is a child that ends by exit(), and must not end
// by a signal, by a hang, or with a reported error. Known from pytorch/pytorch issues 36408, 13786,
// 154117 and 97142.
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <pthread.h>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "berth/bytes.hpp"
#include "berth/runtime.hpp"

#include "sim/simulator.hpp"
#include "support/child_process.hpp"
#include "support/simulation.hpp"

namespace process_exit_test {

using namespace berth;
using namespace berth::test;

namespace {

constexpr int kErrorReported = 3;
constexpr int kNeverEnded = 4;
constexpr int kWrongContent = 5;

enum class DriverEnd { never, before_runtime };
enum class Exit { returns_from_main, another_thread_exits };

RuntimeOptions options_for(bool virtual_memory) {
  RuntimeOptions options;
  options.driver = "sim";
  options.device_allocator.virtual_memory = virtual_memory;
  options.report = [](const Report& report) {
    if (report.severity == Severity::error) _exit(kErrorReported);
  };
  return options;
}

// Both of these are never destroyed.
sim::Simulator& simulator_of_process(const sim::Config& config) {
  static sim::Simulator& simulator = *new sim::Simulator(config);
  return simulator;
}
WorkLog& log_of_process() {
  static WorkLog& log = *new WorkLog;
  return log;
}

/// One block live, one in this thread's cache, one in the heap, one that awaits a stream; and work
/// pending on both streams, which stay.
void leave_everything(Runtime& runtime) {
  const Device device = Device::cuda(0);
  const StreamRef own = runtime.stream(device, runtime.create_stream(device).release());
  const StreamRef user = runtime.stream(device, runtime.create_stream(device).release());
  DeviceAllocator& memory = runtime.memory(device);
  PinnedAllocator& pinned = runtime.pinned_memory();
  for (const bool is_pinned : {false, true}) {
    Allocator& allocator = is_pinned ? static_cast<Allocator&>(pinned) : memory;
    const auto allocate = [&](std::size_t bytes) {
      return is_pinned ? pinned.allocate_raw(bytes) : memory.allocate_raw(bytes, own);
    };
    void* const live = allocate(3_MiB);
    void* const in_heap = allocate(12_MiB);
    void* const cached = allocate(3_MiB);
    void* const pending = allocate(3_MiB);
    allocator.deallocate(in_heap);
    static_cast<void>(allocate(512));
    allocator.record_stream(live, user);
    allocator.record_stream(pending, user);
    log_of_process().submit(user, "use");
    allocator.deallocate(pending);
    allocator.deallocate(cached);
  }
  log_of_process().submit(own, "work");
}

/// The way out of a program.
int leave(Exit exit) {
  if (exit == Exit::returns_from_main) return 0;
  std::thread([] { std::exit(0); }).join();
  return kNeverEnded;
}

/// A thread that asks and frees for ever, by every way there is.
class BusyThread {
 public:
  explicit BusyThread(Runtime& runtime)
      : runtime_(runtime),
        own_(runtime.create_stream(Device::cuda(0))),
        user_(runtime.create_stream(Device::cuda(0))) {
    std::thread([this] {
      for (;;) step();
    }).detach();
  }
  /// Waits until it has come round `count` times more.
  void wait_for_rounds(std::uint64_t count) {
    const std::uint64_t target = rounds_ + count;
    while (rounds_ < target) std::this_thread::yield();
  }

 private:
  void step() {
    DeviceAllocator& memory = runtime_.memory(Device::cuda(0));
    const std::uint64_t round = rounds_;
    void* const data = memory.allocate_raw(512 * (1 + round % 5000), own_);
    if (round % 3 == 0) memory.record_stream(data, user_);
    memory.deallocate(data);
    runtime_.pinned_memory().deallocate(runtime_.pinned_memory().allocate_raw(1 + round % 100'000));
    if (round % 50 == 0) memory.trim();
    if (round % 70 == 0) static_cast<void>(memory.try_allocate(std::size_t{1} << 44, own_));
    if (round % 20 == 0) use_in_thread_of_its_own(memory);
    rounds_ = round + 1;
  }

  /// Detached from its beginning: the process may end at any time, and a sanitizer reports a thread
  /// that nobody has joined by then.
  void use_in_thread_of_its_own(DeviceAllocator& memory) {
    struct Use {
      DeviceAllocator& memory;
      StreamRef stream;
      std::atomic<bool> is_done = false;
    } use{memory, own_};
    pthread_attr_t detached;
    pthread_attr_init(&detached);
    pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
    pthread_t thread{};
    const auto run = [](void* data) -> void* {
      Use& its = *static_cast<Use*>(data);
      its.memory.deallocate(its.memory.allocate_raw(1, its.stream));
      its.is_done = true;
      return nullptr;
    };
    const bool is_running = pthread_create(&thread, &detached, run, &use) == 0;
    pthread_attr_destroy(&detached);
    while (is_running && !use.is_done) std::this_thread::yield();
  }

  Runtime& runtime_;
  Stream own_;
  Stream user_;
  std::atomic<std::uint64_t> rounds_ = 0;
};

}  // namespace

TEST_CASE("a process may exit with live, cached and deferred blocks and with pending work") {
  for (const bool virtual_memory : {true, false}) {
    for (const DriverEnd driver_end : {DriverEnd::never, DriverEnd::before_runtime}) {
      for (const Exit exit : {Exit::returns_from_main, Exit::another_thread_exits}) {
        CAPTURE(virtual_memory);
        CAPTURE(int(driver_end));
        CAPTURE(int(exit));
        const auto code = exit_code_of([&] {
          alarm(kHangSeconds);
          // Destroyed in the opposite order, as the process exits.
          static std::optional<Runtime> runtime;
          static std::optional<sim::Simulator> goes_first;
          if (driver_end == DriverEnd::never) {
            simulator_of_process(manual_progress());
          } else {
            goes_first.emplace(manual_progress());
          }
          RuntimeOptions options = options_for(virtual_memory);
          // A simulator that is gone is none, which is an error. CUDA says that it shuts down.
          if (driver_end == DriverEnd::before_runtime) options.report = nullptr;
          runtime.emplace(std::move(options));
          leave_everything(*runtime);
          return leave(exit);
        });
        CHECK(code == 0);
      }
    }
  }
}

TEST_CASE("static owners may free after their thread's cache was destroyed") {
  for (const Exit exit : {Exit::returns_from_main, Exit::another_thread_exits}) {
    CAPTURE(int(exit));
    const auto code = exit_code_of([&] {
      alarm(kHangSeconds);
      simulator_of_process(manual_progress());
      static Runtime runtime(options_for(true));
      static const Stream own = runtime.create_stream(Device::cuda(0));
      static const StreamLease user = runtime.streams(Device::cuda(0)).acquire();
      static const EventLease mark = runtime.record(own);
      static Allocation block = runtime.memory(Device::cuda(0)).allocate(3_MiB, own);
      static Allocation recorded = runtime.memory(Device::cuda(0)).allocate(3_MiB, own);
      static Allocation pinned = runtime.pinned_memory().allocate(1_MiB);
      recorded.record_stream(user);
      pinned.record_stream(user);
      log_of_process().submit(user, "use");
      runtime.memory(Device::cuda(0)).allocate(3_MiB, own).reset();
      return leave(exit);
    });
    CHECK(code == 0);
  }
}

TEST_CASE("a function of atexit() may use a Runtime that still exists") {
  const auto code = exit_code_of([] {
    alarm(kHangSeconds);
    simulator_of_process({});
    static Runtime runtime(options_for(true));
    static const Stream own = runtime.create_stream(Device::cuda(0));
    static Allocation kept = runtime.memory(Device::cuda(0)).allocate(3_MiB, own);
    std::atexit([] {  // registered last, so it is called first
      const std::vector<unsigned char> content(1_MiB, 7);
      std::vector<unsigned char> back(1_MiB);
      Allocation block = runtime.memory(Device::cuda(0)).allocate(30_MiB, own);
      runtime.copier().copy(block.data(), content.data(), 1_MiB, own);
      runtime.copier().copy(back.data(), block.data(), 1_MiB, own);
      kept.reset();
      block.reset();
      if (back != content || runtime.memory(Device::cuda(0)).trim() == 0) _exit(kWrongContent);
    });
    return 0;
  });
  CHECK(code == 0);
}

TEST_CASE("a thread may allocate while the process's static objects are destroyed") {
  const auto code = exit_code_of([] {
    alarm(kHangSeconds);
    struct Last {
      BusyThread* busy = nullptr;
      ~Last() { busy->wait_for_rounds(300); }
    };
    // Made before all that the library makes by the way, and so destroyed after that.
    static Last last;
    simulator_of_process({});
    static Runtime& runtime = *new Runtime(options_for(true));
    last.busy = new BusyThread(runtime);
    last.busy->wait_for_rounds(300);
    return 0;
  });
  CHECK(code == 0);
}

}  // namespace process_exit_test
