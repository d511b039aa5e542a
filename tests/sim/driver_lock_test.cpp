// SPDX-License-Identifier: Apache-2.0
// The lock that a driver holds while a call waits.
#include <atomic>
#include <functional>
#include <string>
#include <thread>

#include <fmt/format.h>

#include "sim/flag.hpp"
#include "sim/sim_fixture.hpp"

namespace driver_lock_test {

using namespace berth;
using namespace berth::test;

namespace {

/// A stream that waits for a flag, and a second one without work; a call waits for the first, until
/// release().
class Waiting {
 public:
  explicit Waiting(const std::string& options)
      : fixture(fmt::format("memory=64MiB,devices=2,{}", options)) {
    flag.hold(busy);
    OK(CU(cuEventRecord)(idle_event, idle));
    OK(CU(cuStreamSynchronize)(idle));
  }

  /// Calls `wait` in a thread of its own, and returns once that waits.
  void start(const char* function, std::function<CUresult()> wait) {
    const std::uint64_t before = fixture.sim.calls(function);
    waiter_ = std::thread([this, wait = std::move(wait)] {
      OK(CU(cuCtxSetCurrent)(fixture.context));
      CHECK(wait() == CUDA_SUCCESS);
    });
    // A call holds the simulator from where it is counted to where it waits.
    while (fixture.sim.calls(function) == before) std::this_thread::yield();
  }
  /// Lets the wait end as soon as `function` has been called once more.
  void release_at(const char* function) {
    const std::uint64_t before = fixture.sim.calls(function);
    releaser_ = std::thread([this, function, before] {
      while (fixture.sim.calls(function) == before) std::this_thread::yield();
      released = true;
      flag.set(1);
    });
  }
  void join() {
    flag.set(1);
    waiter_.join();
    if (releaser_.joinable()) releaser_.join();
  }

  SimFixture fixture;
  Flag<cuuint32_t> flag;
  CUstream busy = make_stream();
  CUstream idle = make_stream();
  CUevent idle_event = make_event();
  CUdeviceptr memory = make_memory(64);
  std::atomic<bool> released = false;

 private:
  std::thread waiter_;
  std::thread releaser_;
};

constexpr const char* kModes[] = {"progress=eager", "progress=manual", "progress=random",
                                  "progress=timed"};

}  // namespace

TEST_CASE("a call of another thread proceeds when the waiting call has returned") {
  struct Case {
    const char* function;
    std::function<CUresult(Waiting&)> call;
  };
  const Case cases[] = {
      {"cuEventQuery", [](Waiting& w) { return CU(cuEventQuery)(w.idle_event); }},
      {"cuEventSynchronize", [](Waiting& w) { return CU(cuEventSynchronize)(w.idle_event); }},
      {"cuStreamQuery", [](Waiting& w) { return CU(cuStreamQuery)(w.idle); }},
      {"cuStreamSynchronize", [](Waiting& w) { return CU(cuStreamSynchronize)(w.idle); }},
      {"cuEventRecord", [](Waiting& w) { return CU(cuEventRecord)(w.idle_event, w.idle); }},
      {"cuMemHostAlloc",
       [](Waiting&) {
         void* pinned = nullptr;
         return CU(cuMemHostAlloc)(&pinned, 64, 0);
       }},
      {"cuStreamDestroy", [](Waiting&) { return CU(cuStreamDestroy)(make_stream()); }},
      {"cuMemFree", [](Waiting& w) { return CU(cuMemFree)(w.memory); }},
  };
  for (const char* mode : kModes) {
    for (const Case& c : cases) {
      CAPTURE(std::string(mode));
      CAPTURE(std::string(c.function));
      Waiting waiting(fmt::format("driver_lock=on,{}", mode));
      if (std::string_view(c.function) == "cuStreamSynchronize")
        waiting.start("cuCtxSynchronize", [] { return CU(cuCtxSynchronize)(); });
      else
        waiting.start("cuStreamSynchronize", [&] { return CU(cuStreamSynchronize)(waiting.busy); });
      waiting.release_at(c.function == std::string_view("cuStreamDestroy")
                             ? "cuStreamCreateWithPriority"
                             : c.function);
      CHECK(c.call(waiting) == CUDA_SUCCESS);
      CHECK(waiting.released);
      waiting.join();
    }
  }
}

TEST_CASE("every wait holds the lock") {
  struct Case {
    const char* function;
    std::function<CUresult(Waiting&)> wait;
    const char* options = "";
  };
  const Case cases[] = {
      {"cuStreamSynchronize", [](Waiting& w) { return CU(cuStreamSynchronize)(w.busy); }},
      {"cuCtxSynchronize", [](Waiting&) { return CU(cuCtxSynchronize)(); }},
      {"cuEventSynchronize",
       [](Waiting& w) {
         const CUevent event = make_event();
         OK(CU(cuEventRecord)(event, w.busy));
         return CU(cuEventSynchronize)(event);
       }},
      {"cuMemFree", [](Waiting&) { return CU(cuMemFree)(make_memory(64)); }},
      {"cuMemFreeHost", [](Waiting&) { return CU(cuMemFreeHost)(make_pinned(64)); }},
      {"cuMemsetD8Async",
       [](Waiting& w) { return CU(cuMemsetD8Async)(make_memory(64), 1, 64, w.busy); }, ",queue=1"},
      {"cuMemsetD8Async",
       [](Waiting& w) { return CU(cuMemsetD8Async)(make_memory(64), 1, 64, w.busy); },
       ",launch_blocking=on"},
  };
  for (const Case& c : cases) {
    CAPTURE(std::string(c.function));
    CAPTURE(std::string(c.options));
    Waiting waiting(fmt::format("driver_lock=on{}", c.options));
    waiting.start(c.function, [&] { return c.wait(waiting); });
    waiting.release_at("cuEventQuery");
    CHECK(CU(cuEventQuery)(waiting.idle_event) == CUDA_SUCCESS);
    CHECK(waiting.released);
    waiting.join();
  }
}

TEST_CASE("without the option, or in another context, a call proceeds at once") {
  for (const char* options : {"driver_lock=off", "driver_lock=on"}) {
    CAPTURE(options);
    Waiting waiting(options);
    CUcontext context = waiting.fixture.context;
    if (std::string_view(options) == "driver_lock=on") context = retain(1);
    OK(CU(cuCtxSetCurrent)(context));
    const CUevent event = make_event();
    OK(CU(cuCtxSetCurrent)(waiting.fixture.context));
    waiting.start("cuStreamSynchronize", [&] { return CU(cuStreamSynchronize)(waiting.busy); });
    CHECK(CU(cuEventQuery)(event) == CUDA_SUCCESS);
    CHECK(CU(cuCtxSetCurrent)(context) == CUDA_SUCCESS);
    CHECK(CU(cuStreamQuery)(nullptr) == CUDA_SUCCESS);
    CHECK(waiting.flag.get() == 0);
    waiting.join();
  }
}

TEST_CASE("a thread that must query before it makes progress is reported, and admitted") {
  for (const char* mode : kModes) {
    CAPTURE(std::string(mode));
    Waiting waiting(fmt::format("driver_lock=on,stall_ms=50,{}", mode));
    waiting.start("cuStreamSynchronize", [&] { return CU(cuStreamSynchronize)(waiting.busy); });
    CHECK(CU(cuEventQuery)(waiting.idle_event) == CUDA_SUCCESS);
    const std::vector<std::string> findings = waiting.fixture.sim.take_findings();
    waiting.join();
    REQUIRE(findings.size() == 1);
    CHECK(findings[0].starts_with("driver lock: cuEventQuery "));
    CHECK(findings[0].find("cuStreamSynchronize") != std::string::npos);
    CHECK(waiting.fixture.sim.take_findings().empty());
  }
}

TEST_CASE("a thread that polls behind one call is reported once") {
  Waiting waiting("driver_lock=on,stall_ms=100");
  waiting.start("cuStreamSynchronize", [&] { return CU(cuStreamSynchronize)(waiting.busy); });
  const auto ask = [&] {
    OK(CU(cuCtxSetCurrent)(waiting.fixture.context));
    for (int i = 0; i < 4; ++i) CHECK(CU(cuEventQuery)(waiting.idle_event) == CUDA_SUCCESS);
  };
  const auto found = [&] {
    const std::vector<std::string> findings = waiting.fixture.sim.take_findings();
    return findings.size() == 1 && findings[0].starts_with("driver lock: cuEventQuery ");
  };
  ask();
  CHECK(found());
  std::thread(ask).join();
  CHECK(found());
  waiting.join();
}

TEST_CASE("a thread admitted during one waiting call waits for the next one") {
  Waiting waiting("driver_lock=on,stall_ms=100");
  for (int i = 0; i < 2; ++i) {
    waiting.flag.set(0);
    waiting.flag.hold(waiting.busy);
    waiting.start("cuStreamSynchronize", [&] { return CU(cuStreamSynchronize)(waiting.busy); });
    CHECK(CU(cuEventQuery)(waiting.idle_event) == CUDA_SUCCESS);
    CHECK(waiting.fixture.sim.take_findings().size() == 1);
    waiting.join();
  }
}

}  // namespace driver_lock_test
