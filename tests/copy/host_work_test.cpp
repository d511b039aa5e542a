// SPDX-License-Identifier: Apache-2.0
// The host work of staged copies: the order of pieces, and the completion of a copy.
#include "copy/staged/host_work.hpp"

#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "copy/copy_fixture.hpp"
#include "copy/staged/staged_transfer.hpp"
#include "copy/staged_fixture.hpp"
#include "support/errors.hpp"
#include "support/thinned.hpp"

namespace host_work_test {

using namespace berth;
using namespace berth::test;

namespace {

constexpr std::size_t kSlot = 64_KiB;
/// Longer than any step of a test takes.
constexpr std::chrono::seconds kHangs{20};

struct EagerStaged : StagedTest {
  EagerStaged() : StagedTest(staged_config(sim::Progress::eager)) {}
};

/// A source that ends early.
class BrokenHost final : public HostSide {
 public:
  explicit BrokenHost(std::size_t good_bytes) : good_bytes_(good_bytes) {}
  void read(std::byte* staging, std::size_t offset, std::size_t bytes) override {
    ++reads;
    if (offset + bytes > good_bytes_) throw std::runtime_error("the source ends here");
    std::fill_n(staging, bytes, std::byte{7});
  }
  void write(const std::byte*, std::size_t, std::size_t) override {}
  inline static int reads = 0;

 private:
  const std::size_t good_bytes_;
};

/// A target in whose midst something else happens.
class InterruptedHost final : public HostSide {
 public:
  explicit InterruptedHost(std::function<void()> action) : action_(std::move(action)) {}
  void read(std::byte*, std::size_t, std::size_t) override { action_(); }
  void write(const std::byte*, std::size_t, std::size_t) override { action_(); }

 private:
  const std::function<void()> action_;
};

}  // namespace

TEST_CASE("a thread that waits for a copy performs its host work without other threads") {
  for (const auto progress : {sim::Progress::eager, sim::Progress::manual, sim::Progress::random}) {
    for (const std::size_t bytes : {std::size_t{1}, kSlot, 3 * kSlot + 5, 40 * kSlot + 1}) {
      CAPTURE(int(progress));
      CAPTURE(bytes);
      StagedTest test(staged_config(progress));
      const Stream stream = test.stream();
      std::byte* const device = test.allocate(bytes);
      Bytes source = pattern(bytes, 5);
      Bytes target(bytes);
      const auto in =
          test.start(StagedTest::Direction::to_device, source.data(), device, bytes, stream);
      const auto out =
          test.start(StagedTest::Direction::to_host, target.data(), device, bytes, stream);
      test.work.complete(in);
      CHECK((test.content(device, bytes) == source));
      test.work.complete(out);
      CHECK((target == source));
      CHECK(in->failure() == nullptr);
      CHECK(out->bytes_done() == bytes);
      CHECK(test.copies_over == 2);
      CHECK(test.work.copies_under_way() == 0);
    }
  }
}

TEST_CASE_FIXTURE(ManualStaged,
                  "a source is read as far as there are slots, before the stream gets there") {
  const Stream stream = this->stream();
  log.submit(stream, "earlier");
  std::byte* const device = allocate(20 * kSlot);
  Bytes source = pattern(20 * kSlot, 1);
  const auto copy = start(Direction::to_device, source.data(), device, 20 * kSlot, stream);
  std::size_t pieces = 0;
  while (work.process_piece()) ++pieces;
  CHECK(pieces == 4);  // half of the slots
  CHECK_FALSE(log.is_done("earlier"));
  CHECK(copy->bytes_done() == 0);
  complete_all();
}

TEST_CASE_FIXTURE(ManualStaged, "copies alternate after each piece, whatever their size") {
  const Stream first = stream();
  const Stream second = stream();
  std::byte* const device = allocate(8 * kSlot);
  Bytes source(8 * kSlot);
  const auto large = start(Direction::to_device, source.data(), device, 7 * kSlot, first);
  const auto small = start(Direction::to_device, source.data(), device + 7 * kSlot, kSlot, second);
  std::vector<StagedCopy*> order;
  while (const auto copy = move_next()) order.push_back(copy.get());
  REQUIRE(order.size() == 5);
  CHECK((order[0] == large.get() && order[1] == small.get() && order[2] == large.get()));
  complete_all();
}

TEST_CASE_FIXTURE(ManualStaged, "copies of a stream with a higher priority go first") {
  const Stream first = stream();
  const Stream second = stream();
  std::byte* const device = allocate(8 * kSlot);
  Bytes source(8 * kSlot);
  const auto patient = start(Direction::to_device, source.data(), device, 4 * kSlot, first);
  const auto urgent =
      start(Direction::to_device, source.data(), device + 4 * kSlot, 4 * kSlot, second, -1);
  for (int count = 0; count < 4; ++count) CHECK(move_next() == urgent);
  CHECK(move_next() == patient);
  complete_all();
}

TEST_CASE_FIXTURE(EagerStaged,
                  "a copy reports the failure of its host end and blocks no later work") {
  const Stream stream = this->stream();
  std::byte* const device = allocate(20 * kSlot);
  BrokenHost::reads = 0;
  const auto copy = start({.direction = Direction::to_device,
                           .host = std::make_unique<BrokenHost>(2 * kSlot),
                           .device = std::make_unique<LinearDevice>(device),
                           .bytes = 20 * kSlot},
                          stream);
  log.submit(stream, "after");
  work.complete(copy);
  CHECK(copy->has_failed());
  CHECK(BrokenHost::reads == 3);
  CHECK_THROWS_WITH(std::rethrow_exception(copy->failure()), "the source ends here");
  stream.ref().sync();
  CHECK(log.is_done("after"));
  CHECK(memory.bytes_in_use() == 0);
}

TEST_CASE_FIXTURE(EagerStaged, "a copy reports the first of several failures") {
  const Stream stream = this->stream();
  Bytes target(kSlot);
  const auto copy = start(Direction::to_host, target.data(), allocate(kSlot), kSlot, stream);
  copy->fail(std::make_exception_ptr(std::runtime_error("the first")));
  copy->fail(std::make_exception_ptr(std::runtime_error("the second")));
  work.cancel(copy, std::make_exception_ptr(Cancelled("the third")));
  work.complete(copy);
  CHECK_THROWS_WITH(std::rethrow_exception(copy->failure()), "the first");
}

TEST_CASE_FIXTURE(EagerStaged, "a failed copy moves no more bytes") {
  const Stream stream = this->stream();
  std::byte* const device = allocate(20 * kSlot);
  Bytes target(20 * kSlot, 1);
  fill(device, Bytes(20 * kSlot, 2), stream);
  const auto copy = start(Direction::to_host, target.data(), device, 20 * kSlot, stream);
  work.poll_progress();
  REQUIRE(work.process_piece());
  copy->fail(std::make_exception_ptr(Cancelled("enough")));
  work.complete(copy);
  CHECK(std::ranges::count(target, 2) == kSlot);
  CHECK_THROWS_AS(std::rethrow_exception(copy->failure()), Cancelled);
}

TEST_CASE_FIXTURE(
    EagerStaged, "a stream does not pass a cancelled copy while a thread still writes its target") {
  const Stream stream = this->stream();
  HostWork::CopyPtr copy;
  int writes = 0;
  copy = start({.direction = Direction::to_host,
                .host = std::make_unique<InterruptedHost>([&] {
                  ++writes;
                  work.cancel(copy, std::make_exception_ptr(Cancelled("enough")));
                  CHECK_FALSE(stream.ref().is_done());
                }),
                .device = std::make_unique<LinearDevice>(allocate(20 * kSlot)),
                .bytes = 20 * kSlot},
               stream);
  work.complete(copy);
  CHECK(writes == 1);
  CHECK(stream.ref().is_done());
}

TEST_CASE_FIXTURE(ManualStaged, "a copy with no pieces left to move cannot be cancelled") {
  const Stream stream = this->stream();
  Bytes source(kSlot, 3);
  const auto copy =
      start({.direction = Direction::to_device,
             .host = std::make_unique<LinearHost>(reinterpret_cast<std::byte*>(source.data())),
             .device = std::make_unique<LinearDevice>(allocate(kSlot)),
             .bytes = kSlot},
            stream);
  while (work.process_piece()) continue;
  work.cancel(copy, std::make_exception_ptr(Cancelled("too late")));
  work.complete(copy);
  CHECK(copy->failure() == nullptr);
}

TEST_CASE("a failed submission leaves no events to query") {
  StagedTest test(staged_config(sim::Progress::eager));
  const Stream stream = test.stream();
  bool was_over = false;
  HostWork work([&](StagedCopy& copy) {
    copy.release();
    CHECK_FALSE(copy.next_mark().has_value());
    was_over = true;
  });
  Bytes host(20 * kSlot);
  const auto copy = std::make_shared<StagedCopy>(
      stream,
      StagedRoute{.direction = CopyDirection::to_device,
                  .host = std::make_unique<LinearHost>(reinterpret_cast<std::byte*>(host.data())),
                  .device = std::make_unique<LinearDevice>(test.allocate(20 * kSlot)),
                  .bytes = 20 * kSlot},
      test.memory.try_take(20 * kSlot).value());
  test.tap.refuse(DriverCall::memcpy_async, CUDA_ERROR_UNKNOWN, 3);
  message_of<DriverError>([&] { work.start(copy, test.lane_of(stream), 0, test.events); });
  CHECK(was_over);
}

TEST_CASE("a partly submitted copy is complete when its call throws") {
  for (const auto direction : {StagedTest::Direction::to_device, StagedTest::Direction::to_host}) {
    for (const DriverCall call :
         {DriverCall::memcpy_async, DriverCall::event_record, DriverCall::stream_wait_value32,
          DriverCall::stream_write_value32}) {
      for (const int nth : {1, 2, 7}) {
        CAPTURE(int(direction));
        CAPTURE(int(call));
        CAPTURE(nth);
        StagedTest test(staged_config(sim::Progress::eager));
        const Stream stream = test.stream();
        std::byte* const device = test.allocate(20 * kSlot);
        Bytes host(20 * kSlot);
        test.tap.refuse(call, CUDA_ERROR_UNKNOWN, nth);
        message_of<DriverError>(
            [&] { test.start(direction, host.data(), device, 20 * kSlot, stream); });
        CHECK(test.work.copies_under_way() == 0);
        CHECK(test.memory.bytes_in_use() == 0);
        stream.ref().sync();
        const auto next = test.start(direction, host.data(), device, 20 * kSlot, stream);
        test.work.complete(next);
        CHECK(next->failure() == nullptr);
      }
    }
  }
}

TEST_CASE_FIXTURE(EagerStaged,
                  "a failed copy blocks no other copy while its thread calls the driver") {
  const Stream stream = this->stream();
  Bytes source(4 * kSlot);
  bool was_idle = false;
  tap.refuse(DriverCall::memcpy_async, CUDA_ERROR_UNKNOWN);  // behind a gate that is closed
  tap.before(DriverCall::event_record, [&] {
    was_idle = sim::berth_sim_cuStreamQuery(stream.ref().native()) == CUDA_SUCCESS;
  });
  CHECK_THROWS_AS(
      start(Direction::to_device, source.data(), allocate(4 * kSlot), 4 * kSlot, stream),
      DriverError);
  CHECK(was_idle);
}

TEST_CASE_FIXTURE(ManualStaged,
                  "a thread that waits for a source to be read is woken by the last piece") {
  const Stream stream = this->stream();
  Bytes source(kSlot);
  const auto copy = start(Direction::to_device, source.data(), allocate(kSlot), kSlot, stream);
  const auto task = work.take();
  REQUIRE(task.has_value());
  auto reader = std::async(std::launch::async, [&] { work.complete_host_side(copy); });
  std::this_thread::sleep_for(std::chrono::milliseconds(30));  // it waits for this thread now
  task->move();
  work.finish(*task);
  CHECK(reader.wait_for(kHangs) == std::future_status::ready);
  run_stream(stream);
  work.poll_progress();  // wakes it in any case
}

TEST_CASE_FIXTURE(ManualStaged, "a copy is offered to threads when it gets the slots of another") {
  const Stream stream = this->stream();
  Bytes source = pattern(2 * kSlot, 8);
  std::byte* const device = allocate(2 * kSlot);
  const auto first = start(Direction::to_device, source.data(), device, 2 * kSlot, stream);
  const auto second = std::make_shared<StagedCopy>(
      stream,
      StagedRoute{.direction = Direction::to_device,
                  .host = std::make_unique<LinearHost>(reinterpret_cast<std::byte*>(source.data())),
                  .device = std::make_unique<LinearDevice>(device),
                  .bytes = 2 * kSlot},
      memory.share(first->staging().blocks, 2 * kSlot));
  work.start(second, lane_of(stream), 0, events);
  for (int round = 0; round < 10; ++round) {  // threads that wait for neither
    while (move_next() != nullptr) continue;
    run_stream(stream);
    work.poll_progress();
  }
  CHECK(first->is_complete);
  CHECK(second->is_complete);
  CHECK((content(device, 2 * kSlot) == source));
}

TEST_CASE_FIXTURE(EagerStaged, "the end of a partly submitted copy needs no driver call") {
  // Gates of later copies of the stream depend on it, and a driver call may wait for these gates.
  const Stream stream = this->stream();
  Bytes source(4 * kSlot);
  const auto queries = [&] {
    const auto calls = driver.calls();
    return calls[std::size_t(DriverCall::event_query)] +
           calls[std::size_t(DriverCall::event_synchronize)] +
           calls[std::size_t(DriverCall::stream_synchronize)];
  };
  for (const DriverCall call : {DriverCall::memcpy_async, DriverCall::event_record}) {
    const std::uint64_t before = queries();
    tap.refuse(call, CUDA_ERROR_UNKNOWN);
    CHECK_THROWS_AS(
        start(Direction::to_device, source.data(), allocate(4 * kSlot), 4 * kSlot, stream),
        DriverError);
    CHECK(queries() == before);
  }
}

TEST_CASE_FIXTURE(EagerStaged, "a copy whose end cannot be reported is waited for") {
  const Stream stream = this->stream();
  Bytes source(4 * kSlot);
  for (const DriverCall call : {DriverCall::stream_write_value32, DriverCall::event_record}) {
    tap.refuse_all(call, CUDA_ERROR_UNKNOWN);
    CHECK_THROWS_AS(
        start(Direction::to_device, source.data(), allocate(4 * kSlot), 4 * kSlot, stream),
        DriverError);
    CHECK(work.copies_under_way() == 0);
    tap.allow(call);
  }
  CHECK(driver.calls()[std::size_t(DriverCall::stream_synchronize)] == 2);
}

TEST_CASE_FIXTURE(ManualStaged, "a failed device fails its copies with the driver's error") {
  const Stream first = stream();
  const Stream second = stream();
  std::byte* const device = allocate(20 * kSlot);
  Bytes source(20 * kSlot);
  std::vector<HostWork::CopyPtr> copies;
  for (const Stream* const stream : {&first, &first, &second, &first, &second}) {
    const std::size_t offset = copies.size() * kSlot;
    copies.push_back(
        start(Direction::to_device, source.data() + offset, device + offset, kSlot, *stream));
  }
  for (const DriverCall call : {DriverCall::event_query, DriverCall::mem_get_info})
    tap.refuse_all(call, CUDA_ERROR_ILLEGAL_ADDRESS);
  work.query_device(2);  // streams, however many copies they have
  for (const auto& copy : copies) {
    CHECK(copy->is_complete);
    CHECK_THROWS_AS(std::rethrow_exception(copy->failure()), DriverError);
  }
  CHECK(memory.bytes_in_use() == 0);
  simulator.run_all();
}

TEST_CASE_FIXTURE(ManualStaged,
                  "a thread waits outside the driver for a piece that another moves") {
  const Stream stream = this->stream();
  std::byte* const device = allocate(kSlot);
  std::promise<void> is_taken;
  std::promise<void> may_move;
  std::thread mover([&] {
    const auto task = [&] {
      for (;;) {
        if (auto taken = work.take()) return *std::move(taken);
      }
    }();
    is_taken.set_value();
    may_move.get_future().wait();
    task.move();
    work.finish(task);
  });
  Bytes source = pattern(1000, 3);
  const auto copy = start(Direction::to_device, source.data(), device, 1000, stream);
  is_taken.get_future().wait();
  tap.before(DriverCall::event_synchronize, [&] { FAIL_CHECK("the gate is closed"); });
  std::thread waiter([&] { work.complete(copy); });
  // Enough for the mistake; without it, the waiting thread makes no call however long this takes.
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  tap.before(DriverCall::event_synchronize, nullptr);
  may_move.set_value();
  mover.join();
  waiter.join();
  CHECK((content(device, 1000) == source));
}

TEST_CASE_FIXTURE(ManualStaged, "no piece of a copy is moved once its device has failed") {
  const Stream stream = this->stream();
  Bytes source(4 * kSlot);
  start(Direction::to_device, source.data(), allocate(4 * kSlot), 4 * kSlot, stream);
  const auto moving = work.take();
  REQUIRE(moving.has_value());
  for (const DriverCall call : {DriverCall::event_query, DriverCall::mem_get_info})
    tap.refuse_all(call, CUDA_ERROR_UNKNOWN);
  work.query_device(1);
  CHECK(moving->copy->has_failed());
  CHECK_FALSE(work.take().has_value());
  work.finish(*moving);
  CHECK(work.copies_under_way() == 0);
  simulator.run_all();
}

TEST_CASE_FIXTURE(ManualStaged, "a driver query that fails once does not fail a copy") {
  const Stream stream = this->stream();
  std::byte* const device = allocate(8 * kSlot);
  Bytes source = pattern(8 * kSlot, 6);
  const auto copy = start(Direction::to_device, source.data(), device, 8 * kSlot, stream);
  for (const DriverCall call : {DriverCall::event_query, DriverCall::ctx_get_current}) {
    tap.refuse(call, CUDA_ERROR_UNKNOWN);
    work.query_device(1);
  }
  tap.refuse(DriverCall::event_synchronize, CUDA_ERROR_UNKNOWN);
  work.complete(copy);
  CHECK(copy->failure() == nullptr);
  CHECK((content(device, 8 * kSlot) == source));
}

TEST_CASE_FIXTURE(ManualStaged, "a device that goes on although no query succeeds ends no copy") {
  const Stream stream = this->stream();
  std::byte* const device = allocate(20 * kSlot);
  Bytes source = pattern(20 * kSlot, 7);
  const auto copy = start(Direction::to_device, source.data(), device, 20 * kSlot, stream);
  for (const DriverCall call : {DriverCall::event_query, DriverCall::event_synchronize})
    tap.refuse_all(call, CUDA_ERROR_UNKNOWN);
  work.query_device(1);
  CHECK_FALSE(copy->has_failed());
  CHECK(memory.bytes_in_use() > 0);  // the device reads it
  const std::function<void()> run = [&] {
    run_stream(stream);
    tap.before(DriverCall::event_synchronize, run);
  };
  run();
  work.complete(copy);
  CHECK(copy->failure() == nullptr);
  CHECK((content(device, 20 * kSlot) == source));
}

TEST_CASE_FIXTURE(ManualStaged, "a query of a copy delays neither it nor later copies") {
  const Stream stream = this->stream();
  Bytes source(2 * kSlot);
  std::byte* const device = allocate(2 * kSlot);
  const auto first = start(Direction::to_device, source.data(), device, kSlot, stream);
  const auto second =
      start(Direction::to_device, source.data() + kSlot, device + kSlot, kSlot, stream);
  for (const CUresult answer : {CUDA_SUCCESS, CUDA_ERROR_LAUNCH_FAILED}) {
    const bool fails = answer != CUDA_SUCCESS;
    const auto& copy = fails ? second : first;
    if (fails) tap.refuse_all(DriverCall::event_query, answer);
    // What other threads do while the driver keeps this one.
    tap.before(DriverCall::event_query, [&] {
      while (work.process_piece()) continue;
      const ContextScope scope(context);
      while (!copy->is_complete && simulator.run_next(stream.ref().native())) work.poll_progress();
      CHECK(copy->is_complete);
    });
    work.query_device(1);
    CHECK(copy->failure() == nullptr);
  }
  tap.allow(DriverCall::event_query);
  CHECK(copies_over == 2);
}

TEST_CASE_FIXTURE(
    EagerStaged,
    "several threads perform the host work of several copies, and every byte is right") {
  constexpr std::size_t kBytes = 100 * kSlot + 11;
  const Stream first = stream();
  const Stream second = stream();
  std::byte* const here = allocate(kBytes);
  std::byte* const there = allocate(kBytes);
  Bytes source = pattern(kBytes, 8);
  Bytes other = pattern(kBytes, 9);
  Bytes target(kBytes);
  fill(there, other, second);
  const auto in = start(Direction::to_device, source.data(), here, kBytes, first);
  const auto out = start(Direction::to_host, target.data(), there, kBytes, second);
  std::vector<std::thread> threads;
  for (int count = 0; count < 3; ++count) {
    threads.emplace_back([this] {
      while (work.copies_under_way() > 0) {
        if (!work.process_piece() && !work.poll_progress()) std::this_thread::yield();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK((content(here, kBytes) == source));
  CHECK((target == other));
  CHECK((in->is_complete && out->is_complete));
}

TEST_CASE_FIXTURE(ManualStaged,
                  "the next copy receives the slots before the finished copy is freed") {
  const Stream stream = this->stream();
  std::byte* const device = allocate(2 * kSlot);
  Bytes source = pattern(2 * kSlot, 1);
  HostWork::CopyPtr first;
  HostWork::CopyPtr second;
  std::vector<bool> had_turn;
  HostWork sharing([&](StagedCopy& copy) {
    if (&copy == first.get()) had_turn.push_back(second->has_turn());
    copy.release();
  });
  const auto lane = std::make_shared<CopyLane>();
  const auto make = [&](Staging staging) {
    return std::make_shared<StagedCopy>(
        stream,
        StagedRoute{
            .direction = Direction::to_device,
            .host = std::make_unique<LinearHost>(reinterpret_cast<std::byte*>(source.data())),
            .device = std::make_unique<LinearDevice>(device),
            .bytes = kSlot},
        std::move(staging));
  };
  Staging slots = *memory.try_take(kSlot);
  Staging shared = memory.share(slots.blocks, kSlot);
  first = make(std::move(slots));
  second = make(std::move(shared));
  sharing.start(first, lane, 0, events);
  sharing.start(second, lane, 0, events);
  CHECK_FALSE(second->has_turn());
  sharing.complete(first);
  CHECK(had_turn == std::vector<bool>{true});
  sharing.complete(second);
  sharing.complete_all();
}

TEST_CASE("no thread moves pieces of a copy that can neither be submitted nor marked") {
  for (int round = 0; round < 300; round += Thinned(5).step()) {
    StagedTest test(staged_config(sim::Progress::eager));
    const Stream stream = test.stream();
    std::byte* const device = test.allocate(4 * kSlot);
    Bytes source(4 * kSlot);
    std::atomic<bool> over = false;
    std::thread worker([&] {
      while (!over) test.work.process_piece();
    });
    test.tap.refuse_all(DriverCall::event_record, CUDA_ERROR_UNKNOWN);
    CHECK_THROWS_AS(
        test.start(StagedTest::Direction::to_device, source.data(), device, 4 * kSlot, stream),
        DriverError);
    over = true;
    worker.join();
    test.tap.allow(DriverCall::event_record);
    CHECK(test.work.copies_under_way() == 0);
  }
}

TEST_CASE_FIXTURE(ManualStaged, "a transfer is done before the memory that it held is freed") {
  const Stream stream = this->stream();
  std::byte* const device = allocate(kSlot);
  Bytes target(kSlot);
  std::shared_ptr<StagedTransfer> transfer;
  std::vector<bool> was_done;
  HostWork freeing([&](StagedCopy& copy) {
    was_done.push_back(transfer->is_done());
    copy.release();
  });
  const auto copy = std::make_shared<StagedCopy>(
      stream,
      StagedRoute{.direction = Direction::to_host,
                  .host = std::make_unique<LinearHost>(reinterpret_cast<std::byte*>(target.data())),
                  .device = std::make_unique<LinearDevice>(device),
                  .bytes = kSlot},
      *memory.try_take(kSlot));
  transfer = std::make_shared<StagedTransfer>(freeing, copy, StagedTransfer::HostMemory::owned);
  freeing.start(copy, std::make_shared<CopyLane>(), 0, events);
  CHECK_FALSE(transfer->is_done());
  transfer->wait();
  CHECK(was_done == std::vector<bool>{true});
}

}  // namespace host_work_test
