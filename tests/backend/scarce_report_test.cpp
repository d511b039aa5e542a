// SPDX-License-Identifier: Apache-2.0
// Failures that are reported while neither berth nor the sink of the test gets memory: the message
// is lost, and nothing else.
#include <atomic>
#include <cstddef>
#include <exception>
#include <memory>
#include <optional>
#include <stdexcept>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "berth/bytes.hpp"
#include "berth/device_buffer.hpp"
#include "berth/error.hpp"

#include "backend/backend_fixture.hpp"
#include "support/scarce_memory.hpp"

namespace scarce_report_test {

using namespace berth;
using namespace berth::test;

TEST_CASE("without memory for its message, a failure that nobody asked for harms nothing else") {
  BackendFixture fixture;
  FakeMachine& machine = *fixture.machine;
  std::vector<std::byte> memory(1000);
  const DeviceBuffer buffer =
      fixture.buffers().create(fixture.device(0), memory.data(), memory.size());
  for (const bool is_over : {true, false}) {
    machine.failure = "no luck";
    machine.is_late = !is_over;
    {
      std::optional<Transfer> failed = buffer.read(memory.data(), 0, memory.size());
      CHECK(failed->is_done() == is_over);
      std::jthread device([&] { machine.await_pending(is_over ? 0 : 1), machine.run_all(); });
      const ScarceMemory scarce(0);
      failed = std::nullopt;
    }
    machine.failure.clear();
    machine.is_late = false;
    buffer.read(memory.data(), 0, memory.size()).wait();
  }
  CHECK(fixture.simulation.reports.all().empty());
}

TEST_CASE("without memory for its message, an exception of on_done harms nothing else") {
  BackendFixture fixture;
  std::vector<std::byte> memory(1000);
  const DeviceBuffer buffer =
      fixture.buffers().create(fixture.device(0), memory.data(), memory.size());
  static thread_local std::optional<ScarceMemory> scarce;
  std::atomic<int> told = 0;
  TransferOptions options;
  options.on_done = [&](std::exception_ptr) {
    ++told;
    const auto failure = std::make_exception_ptr(std::runtime_error("not here"));
    scarce.emplace(0);
    std::rethrow_exception(failure);
  };
  buffer.read(memory.data(), 0, memory.size(), options).wait();
  options.on_done = [&](std::exception_ptr) {
    scarce.reset();
    ++told;
  };
  buffer.read(memory.data(), 0, memory.size(), options).wait();
  while (told < 2) std::this_thread::yield();
  CHECK(fixture.simulation.reports.all().empty());
}

}  // namespace scarce_report_test
