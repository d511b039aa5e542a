// SPDX-License-Identifier: Apache-2.0
#include "fault/fault_fixture.hpp"

#include <algorithm>
#include <array>
#include <memory>

#include "support/thinned.hpp"

namespace berth::test {
namespace {

using Calls = std::array<std::uint64_t, kDriverCallCount>;

struct Fault {
  DriverCall call;
  int nth;
  CUresult code;
};

/// A refused call of these leaves what it should have given back: its caller can only report it.
bool gives_back(DriverCall call) {
  constexpr DriverCall kGiveBack[] = {
      DriverCall::primary_ctx_release, DriverCall::mem_free,         DriverCall::mem_free_host,
      DriverCall::mem_host_unregister, DriverCall::mem_address_free, DriverCall::mem_release,
      DriverCall::mem_unmap,           DriverCall::stream_destroy,   DriverCall::event_destroy};
  return std::ranges::find(kGiveBack, call) != std::end(kGiveBack);
}

/// Every giving back happens inside the current context; without it, it cannot happen.
bool switches_context(DriverCall call) {
  return call == DriverCall::ctx_push_current || call == DriverCall::ctx_get_current ||
         call == DriverCall::ctx_set_current || call == DriverCall::ctx_pop_current;
}

void check_error(const Error& error, const Fault& fault) {
  const std::string message = error.what();
  CAPTURE(message);
  CHECK_FALSE(contains(message, "\n"));
  if (error.code() == Errc::driver) {
    CHECK(error.driver_code() == fault.code);
    CHECK(contains(message, kDriverCallNames[std::size_t(fault.call)]));
  } else {
    CHECK(error.code() == Errc::out_of_memory);
  }
}

/// Runs the steps; `fault`, where there is one, may make one of them throw, which then must
/// succeed.
void run_steps(World& world, const Program& program, const std::optional<Fault>& fault) {
  bool failed = false;
  for (const Step& step : program.steps) {
    CAPTURE(step.name);
    try {
      step.run(world);
    } catch (const Error& error) {
      REQUIRE_MESSAGE(fault.has_value(), error.what());
      check_error(error, *fault);
      CHECK_FALSE(failed);
      failed = true;
      world.check_invariants();
      step.run(world);
    }
    world.check_invariants();
  }
}

void check_nothing_left(World& world, const std::optional<Fault>& fault) {
  const std::vector<std::string> left = world.simulator.live_list();
  if (fault && (gives_back(fault->call) || switches_context(fault->call))) {
    const std::vector<std::string> leaks = world.simulator.take_findings();
    for (const std::string& leak : leaks) CHECK(leak.starts_with("leak: "));
    if (!left.empty() || !leaks.empty()) CHECK_FALSE(world.reports.all().empty());
    return;
  }
  for (const std::string& line : left) FAIL_CHECK("left alive: ", line);
}

/// The calls that the steps and the end of the world make, by function.
Calls run_once(const Program& program, const std::optional<Fault>& fault) {
  const auto world = std::make_unique<World>(program.config);
  world->driver.emplace(world->tap.source(), world->reports.sink());
  world->nvml.emplace(world->tap.source());
  if (program.prepare) program.prepare(*world);
  const Calls before = world->driver->calls();
  if (fault) world->tap.refuse(fault->call, fault->code, fault->nth);
  run_steps(*world, program, fault);
  world->let_go();
  Calls calls = world->driver->calls();
  for (std::size_t call = 0; call < calls.size(); ++call) calls[call] -= before[call];
  check_nothing_left(*world, fault);
  if (!fault) CHECK(world->reports.all().empty());
  return calls;
}

}  // namespace

void survives_every_fault(const Program& program) {
  const Calls calls = run_once(program, std::nullopt);
  Thinned thinned(5);
  for (std::size_t call = 0; call < calls.size(); ++call) {
    for (std::uint64_t nth = 1; nth <= calls[call]; ++nth) {
      for (const CUresult code : {CUDA_ERROR_UNKNOWN, CUDA_ERROR_OUT_OF_MEMORY}) {
        if (thinned.skips()) continue;
        const std::string name = kDriverCallNames[call];
        CAPTURE(name);
        CAPTURE(nth);
        CAPTURE(int(code));
        run_once(program, Fault{DriverCall(call), int(nth), code});
      }
    }
  }
}

}  // namespace berth::test
