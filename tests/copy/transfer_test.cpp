// SPDX-License-Identifier: Apache-2.0
// start() returns at once, and the Transfer reports its progress and its end.
#include "berth/transfer.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <functional>
#include <future>
#include <memory>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "copy/copy_fixture.hpp"
#include "copy/transfer/transfer_end.hpp"
#include "copy/transfer/transfer_state.hpp"
#include "support/captured_graph.hpp"
#include "support/child_process.hpp"
#include "support/errors.hpp"
#include "support/tapped_device.hpp"

namespace transfer_test {

using namespace berth;
using namespace berth::test;

namespace {

constexpr std::size_t kSlot = 64_KiB;
constexpr std::size_t kSlots = 4;
constexpr std::size_t kRing = kSlot * kSlots;

CopierOptions small_ring(StagingShortage on_shortage = StagingShortage::share) {
  return {.staging_slot_bytes = kSlot,
          .staging_slots = kSlots,
          .staging_on_shortage = on_shortage,
          .workers = 2,
          .direct_piece_bytes = kSlot};
}

sim::Config with(sim::Progress progress) {
  sim::Config config;
  config.devices = 2;
  config.progress = progress;
  return config;
}

/// Waits for what other threads do, without a limit of its own.
template <class Condition>
void wait_until(const Condition& condition) {
  while (!condition()) std::this_thread::yield();
}

/// What happens to memory when its scope ends, just before its owner goes.
struct AtEndOfScope {
  explicit AtEndOfScope(std::function<void()> task_) : task(std::move(task_)) {}
  ~AtEndOfScope() { task(); }
  AtEndOfScope(const AtEndOfScope&) = delete;
  AtEndOfScope& operator=(const AtEndOfScope&) = delete;
  const std::function<void()> task;
};

/// Whose end another thread has seen, and not told yet: only who waits hears of it.
class LateTransfer final : public TransferState {
 public:
  LateTransfer() : TransferState(1) {}

  bool is_done() override { return is_told_; }
  void wait() override { is_told_ = true; }
  [[nodiscard]] std::exception_ptr failure() const override { return nullptr; }
  std::size_t bytes_done() override { return 1; }
  void cancel() noexcept override {}

 private:
  std::atomic<bool> is_told_ = false;
};

}  // namespace

TEST_CASE("start() returns at once, whatever kind of memory it is and however much" *
          needs_gates()) {
  for (const bool to_device : {true, false}) {
    for (const Kind host : {Kind::pageable, Kind::pinned, Kind::registered}) {
      CAPTURE(to_device);
      CAPTURE(name_of(host));
      CopyTest test(with(sim::Progress::manual), small_ring());
      const Stream stream = test.stream();
      constexpr std::size_t kBytes = 10 * kRing + 3;
      Buffer there(test, Kind::device, kBytes);
      Buffer here(test, host, kBytes);
      const Bytes content = pattern(kBytes, 1);
      (to_device ? here : there).write(content);
      test.log.submit(stream, "earlier");
      const Transfer transfer = to_device
                                    ? test.copier.start(there.data(), here.data(), kBytes, stream)
                                    : test.copier.start(here.data(), there.data(), kBytes, stream);
      CHECK_FALSE(test.log.is_done("earlier"));
      CHECK_FALSE(transfer.is_done());
      CHECK(transfer.bytes() == kBytes);
      CHECK(transfer.bytes_done() == 0);
      CHECK(test.copier.counters().staging_waits == 0);
      transfer.wait();
      CHECK(transfer.is_done());
      CHECK(transfer.bytes_done() == kBytes);
      CHECK(transfer.failure() == nullptr);
      CHECK(transfer.bytes_per_second() > 0);
      CHECK(((to_device ? there : here).read() == content));
      CHECK((there.guards_hold() && here.guards_hold()));
    }
  }
}

TEST_CASE("work submitted after start() reads the copied bytes, however it is waited for") {
  for (const auto progress : {sim::Progress::eager, sim::Progress::manual, sim::Progress::random}) {
    CAPTURE(int(progress));
    CopyTest test(with(progress), small_ring());
    const Stream first = test.stream();
    const Stream second = test.stream();
    constexpr std::size_t kBytes = 3 * kRing + 1;
    Buffer there(test, Kind::device, kBytes);
    const Bytes content = pattern(kBytes, 4);
    Bytes back(kBytes);
    const Transfer in = test.copier.start(there.data(), content.data(), kBytes, first);
    second.ref().wait(test.runtime->record(first));
    const Transfer out = test.copier.start(back.data(), there.data(), kBytes, second);
    second.ref().sync();
    CHECK((back == content));
    in.wait();
    out.wait();
  }
}

TEST_CASE("an empty transfer and a default Transfer are done") {
  CopyTest test(with(sim::Progress::manual), small_ring());
  const Stream stream = test.stream();
  for (const Transfer& transfer : {Transfer(), test.copier.start(nullptr, nullptr, 0, stream)}) {
    CHECK(transfer.is_done());
    CHECK(transfer.bytes() == 0);
    CHECK(transfer.bytes_done() == 0);
    transfer.wait();
  }
}

TEST_CASE("progress of a copy by the device alone shows in pieces") {
  CopyTest test(with(sim::Progress::manual), small_ring());
  const Stream stream = test.stream();
  Buffer there(test, Kind::device, 4 * kSlot + 1);
  Buffer here(test, Kind::pinned, 4 * kSlot + 1);
  const Transfer transfer = test.copier.start(there.data(), here.data(), here.bytes(), stream);
  std::vector<std::size_t> seen{transfer.bytes_done()};
  while (test.run_next(stream)) {
    if (transfer.bytes_done() != seen.back()) seen.push_back(transfer.bytes_done());
  }
  CHECK(seen == std::vector<std::size_t>{0, kSlot, 2 * kSlot, 3 * kSlot, 4 * kSlot, 4 * kSlot + 1});
}

TEST_CASE("keep_alive is held until the transfer is over, and no longer") {
  for (const Kind host : {Kind::pageable, Kind::pinned}) {
    CAPTURE(name_of(host));
    CopyTest test(with(sim::Progress::manual), small_ring());
    const Stream stream = test.stream();
    Buffer there(test, Kind::device, kRing);
    Buffer here(test, host, kRing);
    auto owner = std::make_shared<int>(1);
    const std::weak_ptr<int> watched = owner;
    const Transfer transfer = test.copier.start(there.data(), here.data(), kRing, stream,
                                                {.keep_alive = std::move(owner)});
    CHECK_FALSE(watched.expired());
    transfer.wait();
    stream.ref().sync();
    wait_until([&] { return watched.expired(); });
  }
}

TEST_CASE("keep_all() keeps the owners of both sides until the transfer is over" * needs_gates()) {
  CopyTest test(with(sim::Progress::manual), small_ring());
  const Stream stream = test.stream();
  auto source = std::make_shared<Buffer>(test, Kind::device, kRing);
  auto target = std::make_shared<Buffer>(test, Kind::pageable, kRing);
  auto* const to = target->data();
  const auto* const from = source->data();
  const std::weak_ptr<Buffer> watched_source = source;
  const std::weak_ptr<Buffer> watched_target = target;
  test.log.submit(stream, "earlier");
  {
    const Transfer transfer = test.copier.start(
        to, from, kRing, stream, {.keep_alive = keep_all(std::move(target), std::move(source))});
  }  // does not wait
  CHECK_FALSE(test.log.is_done("earlier"));
  CHECK_FALSE(watched_source.expired());
  CHECK_FALSE(watched_target.expired());
  stream.ref().sync();
  wait_until([&] { return watched_source.expired() && watched_target.expired(); });
}

TEST_CASE("keep_all() takes owners of any type, and refuses one that is null") {
  const auto owner = std::make_shared<int>(1);
  auto kept = keep_all(owner, std::vector<std::shared_ptr<int>>{owner});
  CHECK(owner.use_count() == 3);
  kept = nullptr;
  CHECK(owner.use_count() == 1);
  CHECK(contains(message_of<InvalidArgument>(
                     [&] { static_cast<void>(keep_all(owner, std::shared_ptr<int>())); }),
                 "owner"));
  CHECK(owner.use_count() == 1);
}

TEST_CASE("a transfer whose end cannot be signaled is completed before its owner is released") {
  for (const std::vector<Kind>& hosts :
       {std::vector{Kind::pageable}, {Kind::pinned}, {Kind::pageable, Kind::pinned}}) {
    CAPTURE(hosts.size());
    CAPTURE(name_of(hosts.front()));
    sim::Config config = with(sim::Progress::manual);
    config.faults = sim::FaultPlan::parse("cuLaunchHostFunc@2=unknown");
    CopyTest test(config, small_ring());
    const Stream stream = test.stream();
    Buffer there(test, Kind::device, 2 * kRing);
    Buffer pageable(test, Kind::pageable, kRing);
    Buffer pinned(test, Kind::pinned, kRing);
    std::vector<CopyRange> copies;
    for (const Kind kind : hosts) {
      copies.push_back({there.data() + copies.size() * kRing,
                        (kind == Kind::pinned ? pinned : pageable).data(), kRing});
    }
    test.log.submit(stream, "before the copies");
    bool was_over = false;
    std::shared_ptr<int> owner(new int(1), [&](const int* owned) {
      was_over = test.log.is_done("before the copies");
      delete owned;
    });
    const std::string message = message_of<DriverError>([&] {
      test.copier.start_batch(copies, stream,
                              {.keep_alive = std::move(owner), .on_done = [](const auto&) {}});
    });
    CHECK(contains(message, "cuLaunchHostFunc"));
    CHECK(was_over);
    test.copier.start_batch(copies, stream, {.keep_alive = std::make_shared<int>(1)}).wait();
  }
}

TEST_CASE("on_done of a transfer is called once, after the bytes have arrived") {
  for (const Kind from : kKinds) {
    if (from == Kind::peer) continue;
    CAPTURE(name_of(from));
    CopyTest test(with(sim::Progress::eager), small_ring());
    const Stream stream = test.stream();
    Buffer target(test, Kind::pageable, 2 * kRing);
    Buffer source(test, from, 2 * kRing);
    const Bytes content = pattern(2 * kRing, 2);
    source.write(content);
    std::promise<Bytes> seen;
    int calls = 0;
    test.copier.start(target.data(), source.data(), 2 * kRing, stream,
                      {.on_done = [&](std::exception_ptr failure) {
                        CHECK(failure == nullptr);
                        ++calls;
                        seen.set_value(target.read());
                      }});
    CHECK((seen.get_future().get() == content));
    test.runtime->completions().finish();
    CHECK(calls == 1);
  }
}

TEST_CASE("a callback gets the failure of the transfer rather than that of the device") {
  struct Failed final : TransferState {
    using TransferState::TransferState;
    bool is_done() override { return true; }
    void wait() override {}
    [[nodiscard]] std::exception_ptr failure() const override {
      return std::make_exception_ptr(FileError("the file ends here"));
    }
    std::size_t bytes_done() override { return 0; }
    void cancel() noexcept override {}
  };
  TappedDevice test;
  CompletionQueue completions([&](DeviceContext&) -> EventPool& { return test.events; });
  const Stream stream = test.stream();
  for (const DriverCall call : {DriverCall::event_query, DriverCall::event_synchronize})
    test.tap.refuse_all(call, CUDA_ERROR_LAUNCH_FAILED);
  std::exception_ptr told;
  end_transfer(completions, stream, std::make_shared<Failed>(std::size_t{1}),
               {.on_done = [&](std::exception_ptr failure) { told = failure; }});
  completions.finish();
  REQUIRE(told != nullptr);
  CHECK_THROWS_AS(std::rethrow_exception(told), FileError);
}

TEST_CASE("a callback at the end of a transfer finds it done, whichever thread completes it") {
  CopyTest test;
  const Stream stream = test.stream();
  const auto late = std::make_shared<LateTransfer>();
  std::promise<bool> ended;
  const Transfer transfer =
      end_transfer(test.runtime->completions(), stream, late,
                   {.on_done = [&](std::exception_ptr) { ended.set_value(late->is_done()); }});
  CHECK(ended.get_future().get());
}

TEST_CASE(
    "pageable memory can be freed after its last Transfer is destroyed, also by an exception") {
  for (const bool to_device : {true, false}) {
    for (const bool throws : {true, false}) {
      CAPTURE(to_device);
      CAPTURE(throws);
      CopyTest test(with(sim::Progress::manual), small_ring());
      const Stream stream = test.stream();
      constexpr std::size_t kBytes = 20 * kRing + 3;
      Buffer there(test, Kind::device, kBytes);
      const Bytes content = pattern(kBytes, 8);
      if (!to_device) there.write(content);
      bool had_content = false;
      try {
        Bytes here = to_device ? content : Bytes(kBytes);
        const AtEndOfScope end([&] {
          had_content = here == content;
          std::fill(here.begin(), here.end(), static_cast<unsigned char>(0xEE));
        });
        Transfer first;
        if (to_device)
          first = test.copier.start(there.data(), here.data(), kBytes, stream);
        else
          first = test.copier.start(here.data(), there.data(), kBytes, stream);
        const Transfer second = first;
        first = Transfer();
        if (throws) throw std::runtime_error("something else");
      } catch (const std::runtime_error&) {
      }
      CHECK(had_content);
      stream.ref().sync();
      CHECK((there.read() == content));
    }
  }
}

TEST_CASE("a target destroyed with its Transfer is not written any more, whatever fails") {
  for (const char* const faults :
       {"cuEventQuery@1+=unknown;cuEventSynchronize@1+=unknown", "*@200=lost:0", "*@400=lost:0"}) {
    CAPTURE(faults);
    sim::Config config = with(sim::Progress::random);
    config.faults = sim::FaultPlan::parse(faults);
    config.checks = false;  // a device that is gone ends no work, and its memory goes all the same
    CopyTest test(config, small_ring());
    test.errors_expected = true;
    for (int round = 0; round < 20; ++round) {
      try {
        const Stream stream = test.stream();
        Buffer there(test, Kind::device, 10 * kRing);
        const auto here = std::make_unique<Bytes>(10 * kRing);
        const Transfer transfer =
            test.copier.start(here->data(), there.data(), here->size(), stream);
        stream.ref().sync();
      } catch (const Error&) {
      }
    }
  }
}

TEST_CASE("a failed query does not end a copy by the device, but a device that answers none does") {
  const auto start_with = [](const char* faults, const auto& check) {
    sim::Config config = with(sim::Progress::manual);
    config.faults = sim::FaultPlan::parse(faults);
    CopyTest test(config, small_ring());
    const Stream stream = test.stream();
    Buffer there(test, Kind::device, kRing);
    Buffer pinned(test, Kind::pinned, kRing);
    const Transfer transfer = test.copier.start(pinned.data(), there.data(), kRing, stream);
    check(transfer);
    stream.ref().sync();
    CHECK(transfer.is_done());
  };
  start_with("cuEventQuery@1=unknown", [](const Transfer& transfer) {
    CHECK_FALSE(transfer.is_done());
    CHECK(transfer.failure() == nullptr);
    transfer.wait();
  });
  start_with("cuEventQuery@1+=unknown", [](const Transfer& transfer) {
    CHECK(transfer.is_done());
    CHECK_THROWS_AS(transfer.wait(), DriverError);
  });
}

TEST_CASE(
    "the destructor of a Transfer of pinned or kept memory, or a detached one, does not wait" *
    needs_gates()) {
  CopyTest test(with(sim::Progress::manual), small_ring());
  const Stream stream = test.stream();
  test.log.submit(stream, "earlier");
  Buffer there(test, Kind::device, kRing);
  Buffer pinned(test, Kind::pinned, kRing);
  const auto kept = std::make_shared<Bytes>(kRing);
  Bytes lent(kRing);
  { const Transfer direct = test.copier.start(pinned.data(), there.data(), kRing, stream); }
  {
    const Transfer of_kept =
        test.copier.start(kept->data(), there.data(), kRing, stream, {.keep_alive = kept});
  }
  {
    Transfer detached = test.copier.start(lent.data(), there.data(), kRing, stream);
    detached.detach();
  }
  {
    const CopyRange ranges[] = {{lent.data(), there.data(), 100},
                                {pinned.data(), there.data(), 100}};
    Transfer batch = test.copier.start_batch(ranges, stream);
    batch.detach();
  }
  CHECK_FALSE(test.log.is_done("earlier"));
  const CopyRange ranges[] = {{lent.data(), there.data(), 100}, {pinned.data(), there.data(), 100}};
  { const Transfer batch = test.copier.start_batch(ranges, stream); }
  CHECK(test.log.is_done("earlier"));
  test.log.submit(stream, "between");
  // Whoever is told of the end has a part in the transfer, and waits for it instead of nobody.
  {
    const Transfer batch = test.copier.start_batch(ranges, stream, {.on_done = [](auto) {}});
  }
  CHECK(test.log.is_done("between"));
  stream.ref().sync();
  Transfer().detach();
}

TEST_CASE("a cancelled transfer reports it, and its stream continues" * needs_gates()) {
  CopyTest test(with(sim::Progress::manual), small_ring());
  const Stream stream = test.stream();
  constexpr std::size_t kBytes = 100 * kRing;
  Buffer there(test, Kind::device, kBytes);
  Bytes here(kBytes, 1);
  Transfer transfer = test.copier.start(there.data(), here.data(), kBytes, stream);
  test.log.submit(stream, "after");
  transfer.cancel();
  CHECK(contains(message_of<Cancelled>([&] { transfer.wait(); }), "cancelled"));
  CHECK(transfer.is_done());
  CHECK(transfer.failure() != nullptr);
  here = Bytes();  // nobody reads it any more
  stream.ref().sync();
  CHECK(test.log.is_done("after"));
  transfer.cancel();  // no operation
  test.copier.copy(there.data(), pattern(kBytes, 1).data(), kBytes, stream);
  CHECK((there.read() == pattern(kBytes, 1)));
}

TEST_CASE("each StagingShortage policy takes effect when all staging memory is in use" *
          needs_gates()) {
  constexpr std::size_t kBytes = 4 * kRing;
  for (const auto policy :
       {StagingShortage::share, StagingShortage::grow, StagingShortage::fall_back}) {
    CAPTURE(int(policy));
    CopyTest test(with(sim::Progress::manual), small_ring(policy));
    const Stream streams[] = {test.stream(), test.stream(), test.stream()};
    Buffer there(test, Kind::device, 3 * kBytes);
    const Bytes content = pattern(3 * kBytes, 7);
    there.write(content);
    Bytes back(3 * kBytes);
    std::vector<Transfer> transfers;
    for (std::size_t index = 0; index < 3; ++index) {
      transfers.push_back(test.copier.start(back.data() + index * kBytes,
                                            there.data() + index * kBytes, kBytes, streams[index]));
    }
    const CopyCounters counted = test.copier.counters();
    CHECK(counted.staging_waits == 0);
    CHECK(counted.copies_by_driver == (policy == StagingShortage::fall_back ? 1 : 0));
    CHECK(counted.copies_staged == (policy == StagingShortage::fall_back ? 2 : 3));
    for (const Transfer& transfer : transfers) transfer.wait();
    CHECK((back == content));
  }
}

TEST_CASE("without gates or pinned memory the driver copies") {
  sim::Config without_gates = with(sim::Progress::eager);
  without_gates.faults = sim::FaultPlan::parse("cuStreamWaitValue32@1=not_supported");
  sim::Config without_pinned = with(sim::Progress::eager);
  without_pinned.host_memory = 0;
  for (const sim::Config& config : {without_gates, without_pinned}) {
    CopyTest test(config, small_ring());
    const Stream stream = test.stream();
    Buffer there(test, Kind::device, 3 * kRing);
    const Bytes content = pattern(3 * kRing, 3);
    Bytes back(3 * kRing);
    for (int round = 0; round < 2; ++round) {
      test.copier.copy_async(there.data(), content.data(), content.size(), stream);
      test.copier.start(back.data(), there.data(), content.size(), stream).wait();
      CHECK((back == content));
    }
    CHECK(test.copier.counters().copies_by_driver == 4);
    CHECK(test.copier.counters().copies_staged == 0);
  }
}

TEST_CASE("on a captured stream a transfer is done at once, and refuses on_done and keep_alive") {
  CopyTest test(with(sim::Progress::eager), small_ring());
  const Stream stream = test.stream();
  Buffer there(test, Kind::device, kSlot);
  Buffer here(test, Kind::pinned, kSlot);
  begin_capture(stream);
  const Transfer transfer = test.copier.start(there.data(), here.data(), kSlot, stream);
  CHECK(transfer.is_done());
  const auto refusal = [&](const TransferOptions& options) {
    return message_of<StreamCaptured>(
        [&] { test.copier.start(there.data(), here.data(), kSlot, stream, options); });
  };
  CHECK(contains(refusal({.on_done = [](std::exception_ptr) {}}), "TransferOptions::on_done"));
  CHECK(contains(refusal({.keep_alive = std::make_shared<int>(1)}), "TransferOptions::keep_alive"));
  const CapturedGraph graph(stream);
  CHECK(graph.nodes() == 1);
}

TEST_CASE("the destructor of a Runtime waits for pending copies") {
  constexpr std::size_t kBytes = 20 * kRing;
  Bytes back(kBytes);
  const Bytes content = pattern(kBytes, 2);
  {
    CopyTest test(with(sim::Progress::eager), small_ring());
    const Stream stream = test.stream();
    Buffer there(test, Kind::device, kBytes);
    there.write(content);
    test.copier.start(back.data(), there.data(), kBytes, stream);
    stream.ref().sync();
  }
  CHECK((back == content));
}

TEST_CASE("a child forked during a copy exits, and can copy on the host") {
  CopyTest test(with(sim::Progress::manual), small_ring());
  const Stream stream = test.stream();
  Buffer there(test, Kind::device, 20 * kRing);
  const Bytes content = pattern(20 * kRing, 2);
  const Transfer transfer = test.copier.start(there.data(), content.data(), content.size(), stream);
  const auto code = exit_code_of([&]() -> int {
    Bytes copied(100);
    test.copier.copy(copied.data(), content.data(), 100);
    bool refused = is_refused_after_fork(
        [&] { test.copier.start(there.data(), content.data(), 100, stream); });
    refused &= is_refused_after_fork([&] { (void)transfer.is_done(); });
    refused &= is_refused_after_fork([&] { (void)transfer.bytes_done(); });
    refused &= is_refused_after_fork([&] { (void)transfer.bytes_per_second(); });
    refused &= is_refused_after_fork([&] { transfer.wait(); });
    refused &= transfer.failure() == nullptr && transfer.bytes() == content.size();
    Transfer(transfer).cancel();
    test.runtime.reset();
    const bool is_right = refused && std::equal(copied.begin(), copied.end(), content.begin());
    return is_right ? 7 : 1;
  });
  CHECK(code == 7);
  transfer.wait();
  CHECK((there.read() == content));
}

TEST_CASE("the rate of a completed transfer does not change") {
  CopyTest test;
  const Stream stream = test.stream();
  Buffer device(test, Kind::device, 100'000);
  Buffer pinned(test, Kind::pinned, 100'000);
  const Transfer transfer = test.copier.start(device.data(), pinned.data(), 100'000, stream);
  transfer.wait();
  const double rate = transfer.bytes_per_second();
  std::this_thread::sleep_for(std::chrono::milliseconds(1));
  CHECK(transfer.bytes_per_second() == rate);
}

TEST_CASE("a batch whose memory is kept is not waited for" * needs_gates()) {
  CopyTest test(with(sim::Progress::manual), small_ring());
  const Stream stream = test.stream();
  test.log.submit(stream, "earlier");
  Buffer there(test, Kind::device, 200);
  Buffer pinned(test, Kind::pinned, 100);
  const auto kept = std::make_shared<Bytes>(100);
  const CopyRange ranges[] = {{kept->data(), there.data(), 100},
                              {pinned.data(), there.data() + 100, 100}};
  { const Transfer batch = test.copier.start_batch(ranges, stream, {.keep_alive = kept}); }
  CHECK_FALSE(test.log.is_done("earlier"));
  stream.ref().sync();
}

}  // namespace transfer_test
