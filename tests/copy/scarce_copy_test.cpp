// SPDX-License-Identifier: Apache-2.0
// Copies on a host that is short of memory: functions that must not throw, or must not fail,
// allocate nothing.
#include <cstddef>
#include <exception>
#include <memory>
#include <new>

#include <doctest/doctest.h>

#include "berth/error.hpp"

#include "copy/copy_fixture.hpp"
#include "copy/transfer/transfer_end.hpp"
#include "copy/transfer/transfer_state.hpp"
#include "support/errors.hpp"
#include "support/scarce_memory.hpp"

namespace scarce_copy_test {

using namespace berth;
using namespace berth::test;

namespace {

constexpr std::size_t kSlot = 64_KiB;
constexpr std::size_t kBytes = 8 * kSlot;

sim::Config standing_still() {
  sim::Config config;
  config.progress = sim::Progress::manual;
  return config;
}

}  // namespace

TEST_CASE("cancel() needs no memory" * needs_gates()) {
  CopyTest test(standing_still(), {.staging_slot_bytes = kSlot, .staging_slots = 4});
  const Stream stream = test.stream();
  Buffer there(test, Kind::device, kBytes);
  const Bytes content = pattern(kBytes, 1);
  Bytes back(kBytes);
  const Transfer first = test.copier.start(there.data(), content.data(), kBytes, stream);
  // It has its turn after the first, so that cancelling it opens no gate, and the simulated driver,
  // which allocates, is not called.
  Transfer second = test.copier.start(back.data(), there.data(), kBytes, stream);
  Transfer third = test.copier.start(back.data(), there.data(), kBytes, stream);
  std::size_t calls = 0;
  {
    const ScarceMemory scarce(0);
    third.cancel();
    calls = scarce.calls();
  }
  CHECK(calls == 0);
  first.wait();
  second.wait();
  CHECK(contains(message_of<Cancelled>([&] { third.wait(); }), "cancelled"));
  CHECK((back == content));
}

TEST_CASE("a transfer for which there is no memory left is over when its call throws") {
  struct Pending final : TransferState {
    using TransferState::TransferState;
    bool is_done() override { return waits > 0; }
    void wait() override { ++waits; }
    [[nodiscard]] std::exception_ptr failure() const override { return nullptr; }
    std::size_t bytes_done() override { return 0; }
    void cancel() noexcept override {}
    int waits = 0;
  };
  CopyTest test;
  const Stream stream = test.stream();
  const auto pending = std::make_shared<Pending>(std::size_t{1});
  bool is_refused = false;
  {
    const ScarceMemory scarce(0);
    try {
      end_transfer(test.runtime->completions(), stream, pending, {});
    } catch (const std::bad_alloc&) {
      is_refused = true;
    }
  }
  CHECK(is_refused);
  CHECK(pending->waits > 0);
}

}  // namespace scarce_copy_test
