// SPDX-License-Identifier: Apache-2.0
// The trial of a gate: what one submission shows, and what several in a row decide.
#include "copy/staged/gate_trial.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "copy/copy_fixture.hpp"
#include "copy/staged/stream_gates.hpp"
#include "copy/staged_fixture.hpp"

namespace gate_trial_test {

using namespace berth;
using namespace berth::test;

namespace {

using Result = GateTrial::Result;

/// A source that can end early.
class EndingHost final : public HostSide {
 public:
  explicit EndingHost(const bool& has_ended) : has_ended_(has_ended) {}
  void read(std::byte* staging, std::size_t, std::size_t bytes) override {
    if (has_ended_) throw std::runtime_error("the source ends here");
    std::fill_n(staging, bytes, std::byte{7});
  }
  void write(const std::byte*, std::size_t, std::size_t) override {}

 private:
  const bool& has_ended_;
};

struct TrialTest : StagedTest {
  static constexpr std::size_t kBytes = 200'000;

  TrialTest() : StagedTest(staged_config(sim::Progress::eager)) {}

  /// The trial of a copy to the device. Its host work may begin at once; `meanwhile` runs within
  /// the call that submits the gate, which is longer than any patience.
  std::optional<Result> result(std::function<void(const HostWork::CopyPtr&)> meanwhile) {
    const auto copy =
        std::make_shared<StagedCopy>(own,
                                     StagedRoute{.direction = StagedRoute::Direction::to_device,
                                                 .host = std::make_unique<EndingHost>(has_ended),
                                                 .device = std::make_unique<LinearDevice>(there),
                                                 .bytes = kBytes},
                                     *memory.try_take(kBytes));
    GateTrial trial(std::chrono::milliseconds{0});
    if (meanwhile != nullptr) tap.after(DriverCall::stream_wait_value32, [&] { meanwhile(copy); });
    try {
      work.start(copy, lane_of(own), 0, events, &trial);
    } catch (const DriverError&) {
    }
    tap.after(DriverCall::stream_wait_value32, nullptr);
    complete_all();
    return trial.result();
  }

  bool has_ended = false;
  const Stream own = stream();
  std::byte* const there = allocate(kBytes);
};

}  // namespace

TEST_CASE("a trial compares the return of a call with the opening of its gate") {
  using namespace std::chrono_literals;
  const GateTrial::Clock::time_point start;
  const auto result = [&](std::optional<std::chrono::milliseconds> opened,
                          std::chrono::milliseconds returned) {
    GateTrial trial(10ms);
    trial.begin(start);
    CHECK(!trial.is_overdue(start + 9ms));
    CHECK(trial.is_overdue(start + 10ms));
    CHECK(!trial.is_admitted());
    if (opened) {
      trial.admit();
      CHECK(trial.is_admitted());
      CHECK(!trial.is_overdue(start + 1h));
      CHECK(!trial.is_open());
      trial.open(start + *opened);
    }
    CHECK(trial.is_open() == opened.has_value());
    trial.end(start + returned);
    return trial.result();
  };
  CHECK(result(std::nullopt, 0ms) == GateTrial::Result::accepted);
  CHECK(result(std::nullopt, 1h) == GateTrial::Result::accepted);  // no thread has looked
  CHECK(result(10ms, 10ms) == GateTrial::Result::blocked);
  CHECK(result(1h, 1h) == GateTrial::Result::blocked);  // a cold disk, a busy worker
  CHECK(result(15ms, 15ms + GateTrial::kReturnMax) == GateTrial::Result::blocked);
  CHECK(result(15ms, 16ms + GateTrial::kReturnMax) == GateTrial::Result::unknown);
}

TEST_CASE("gates end with three blocked trials in a row, and trials with an accepted gate") {
  using enum GateTrial::Result;
  constexpr auto kAccepted = accepted;
  struct Row {
    std::vector<GateTrial::Result> trials;
    bool are_available;
    bool is_decided;
  };
  const Row rows[] = {
      {{accepted}, true, true},
      {{unknown, unknown, unknown, unknown}, true, false},
      {{blocked, blocked}, true, false},
      {{blocked, blocked, blocked}, false, true},
      {{blocked, blocked, unknown, blocked, blocked}, true, false},
      {{blocked, blocked, accepted}, true, true},
      {{unknown, blocked, blocked, blocked}, false, true},
  };
  for (const Row& row : rows) {
    CopyTest test;
    DeviceContext& context = test.stream().ref().context();
    StreamGates gates(context, CopyGates::automatic);
    for (const GateTrial::Result expected : row.trials) {
      StreamGates::NextTrial next(gates);
      REQUIRE(next.get() != nullptr);
      CHECK(StreamGates::NextTrial(gates).get() == nullptr);  // one at a time
      const GateTrial::Clock::time_point now;
      next.get()->begin(now);
      if (expected != kAccepted) {
        next.get()->admit();
        next.get()->open(now);
      }
      next.get()->end(now + (expected == unknown ? 2 : 1) * GateTrial::kReturnMax);
      CHECK(next.get()->result() == expected);
    }
    CHECK(gates.are_available() == row.are_available);
    CHECK((StreamGates::NextTrial(gates).get() == nullptr) == row.is_decided);
    CHECK(test.reports.all().size() == (row.are_available ? 0 : 1));
  }
  CopyTest test;
  for (const CopyGates gates : {CopyGates::on, CopyGates::off}) {
    StreamGates always(test.stream().ref().context(), gates);
    CHECK(StreamGates::NextTrial(always).get() == nullptr);
  }
}

TEST_CASE("a gate is accepted if its submission returns before it opens, whatever comes later") {
  TrialTest test;
  CHECK(test.result(nullptr) == Result::accepted);
  test.tap.refuse(DriverCall::memcpy_async, CUDA_ERROR_UNKNOWN);
  CHECK(test.result(nullptr) == Result::accepted);
}

TEST_CASE("a gate is blocked if its submission returns when the host work has opened it") {
  TrialTest test;
  std::optional<Result> result;
  // A thread that does not run for 10 ms just then makes the trial inconclusive.
  do {
    result = test.result([&](const auto&) { test.move_next(); });
  } while (result == Result::unknown);
  CHECK(result == Result::blocked);
}

TEST_CASE("a copy that fails on trial tells nothing, although it opens its gate") {
  TrialTest test;
  CHECK(test.result([&](const auto& copy) { test.work.cancel(copy, test.work.cancelled()); }) ==
        Result::unknown);
  CHECK(test.result([&](const auto&) {
    test.has_ended = true;
    test.move_next();
  }) == Result::unknown);
  test.has_ended = false;
  test.tap.refuse(DriverCall::stream_wait_value32, CUDA_ERROR_UNKNOWN);
  CHECK(test.result(nullptr) == Result::unknown);
  CHECK(test.result(nullptr) == Result::accepted);
}

}  // namespace gate_trial_test
