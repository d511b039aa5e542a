// SPDX-License-Identifier: Apache-2.0
// Copies between host memory and buffers in parts of a size that the program chooses.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "berth/bytes.hpp"
#include "berth/device_buffer.hpp"

#include "backend/backend_fixture.hpp"
#include "support/refused_threads.hpp"

namespace part_copy_test {

using namespace berth;
using namespace berth::test;

namespace {

constexpr std::size_t kPart = 64_KiB;

TransferOptions in_parts(std::size_t part_bytes = kPart) {
  TransferOptions options;
  options.part_bytes = part_bytes;
  return options;
}

/// Ends the operations of `machine` until the transfer is over, the newest first if that is asked.
void run_until_done(FakeMachine& machine, const Transfer& transfer, bool newest_first = false) {
  while (!transfer.is_done()) {
    const auto next = newest_first ? machine.take_last() : machine.take_next();
    if (next != nullptr) next();
    std::this_thread::yield();
  }
}

/// Returns once more than `bytes` have arrived.
void await_more(const Transfer& transfer, std::size_t bytes) {
  while (transfer.bytes_done() <= bytes) std::this_thread::yield();
}

}  // namespace

TEST_CASE("host memory goes to a buffer and back in parts, in any order of their ends") {
  BackendFixture fixture;
  FakeMachine& machine = *fixture.machine;
  for (const std::size_t bytes : {kPart + 1, 2 * kPart, 7 * kPart - 5}) {
    for (const auto& order : {std::pair(false, false), {true, false}, {true, true}}) {
      const bool is_late = order.first;
      const bool newest_first = order.second;
      CAPTURE(bytes);
      CAPTURE(newest_first);
      const int parts = int((bytes + kPart - 1) / kPart);
      const auto content = numbered_bytes(bytes);
      machine.parts_written = 0;
      machine.ranges_read = 0;
      machine.is_late = is_late;
      const DeviceBuffer buffer =
          fixture.buffers().create(fixture.device(1), content.data(), bytes, in_parts());
      CHECK(buffer.ready().bytes() == bytes);
      run_until_done(machine, buffer.ready(), newest_first);
      buffer.ready().wait();
      CHECK(buffer.ready().bytes_done() == bytes);
      CHECK(machine.parts_written == parts);
      CHECK(machine.whole_created == 0);

      std::vector<std::byte> target(bytes);
      const Transfer read = buffer.read(target.data(), 0, bytes, in_parts());
      run_until_done(machine, read, newest_first);
      read.wait();
      CHECK(read.bytes_done() == bytes);
      CHECK(machine.ranges_read == parts);
      CHECK(are_equal(target, content));

      std::vector<std::byte> tail(bytes - 100);
      const Transfer rest = buffer.read(tail.data(), 100, tail.size(), in_parts());
      run_until_done(machine, rest, newest_first);
      rest.wait();
      CHECK(std::equal(tail.begin(), tail.end(), content.begin() + 100));
      machine.is_late = false;
    }
  }
}

TEST_CASE("without the option, and for what is no larger than a part, the backend gets one call") {
  BackendFixture fixture;
  FakeMachine& machine = *fixture.machine;
  const auto content = numbered_bytes(2 * kPart);
  std::vector<std::byte> target(2 * kPart);
  for (const std::size_t part_bytes : {0_KiB, 2 * kPart, ~std::size_t{4095}}) {
    CAPTURE(part_bytes);
    machine.whole_created = 0;
    machine.ranges_read = 0;
    const DeviceBuffer buffer = fixture.buffers().create(fixture.device(0), content.data(),
                                                         2 * kPart, in_parts(part_bytes));
    buffer.read(target.data(), 0, 2 * kPart, in_parts(part_bytes)).wait();
    CHECK(are_equal(target, content));
    CHECK(machine.whole_created == 1);
    CHECK(machine.ranges_read == 1);
  }
  CHECK(machine.parts_written == 0);
}

TEST_CASE("sizes of parts that are too small or odd are refused, and nothing begins") {
  BackendFixture fixture;
  const auto content = numbered_bytes(2 * kPart);
  std::vector<std::byte> target(2 * kPart);
  const DeviceBuffer buffer =
      fixture.buffers().create(fixture.device(0), content.data(), content.size());
  for (const std::size_t part_bytes : {std::size_t{1}, kPart - 4096, kPart + 1}) {
    const std::string refusal = "part_bytes is " + std::to_string(part_bytes) +
                                "; accepted: 0, and multiples of 4096 from 65536 on";
    const TransferOptions options = in_parts(part_bytes);
    CHECK(message_of<InvalidArgument>([&] {
            return fixture.buffers().create(fixture.device(0), content.data(), 1, options);
          }) == refusal);
    CHECK(message_of<InvalidArgument>([&] { return buffer.read(target.data(), 0, 1, options); }) ==
          refusal);
    const BufferShard shards[] = {{fixture.device(0), 2 * kPart}};
    CHECK(message_of<InvalidArgument>([&] {
            return fixture.buffers().scatter(content.data(), 2 * kPart, shards, options);
          }) == refusal);
    CHECK(message_of<InvalidArgument>([&] {
            return fixture.buffers().gather(target.data(), 2 * kPart, std::span(&buffer, 1),
                                            options);
          }) == refusal);
  }
  CHECK(fixture.machine->buffers_live == 1);
}

TEST_CASE("each part moves the progress, and two are on their way at a time") {
  BackendFixture fixture;
  FakeMachine& machine = *fixture.machine;
  const auto content = numbered_bytes(4 * kPart + 7);
  std::vector<std::byte> target(content.size());
  machine.is_late = true;
  const auto follow = [&](const Transfer& transfer) {
    for (std::size_t part = 0; part < 5; ++part) {
      const std::size_t ahead = std::min<std::size_t>(2, 5 - part);
      machine.await_pending(ahead);
      CHECK(machine.pending_count() == ahead);
      CHECK(transfer.bytes_done() == part * kPart);
      CHECK_FALSE(transfer.is_done());
      CHECK(machine.run_next());
      await_more(transfer, part * kPart);
    }
    transfer.wait();
    CHECK(transfer.bytes_done() == content.size());
  };
  const DeviceBuffer buffer =
      fixture.buffers().create(fixture.device(0), content.data(), content.size(), in_parts());
  follow(buffer.ready());
  follow(buffer.read(target.data(), 0, target.size(), in_parts()));
  CHECK(are_equal(target, content));
}

TEST_CASE("a part that does not end does not hold up the parts behind it") {
  BackendFixture fixture;
  FakeMachine& machine = *fixture.machine;
  const auto content = numbered_bytes(5 * kPart);
  std::vector<std::byte> target(content.size());
  machine.is_late = true;
  const auto hold_first = [&](const Transfer& transfer) {
    machine.await_pending(1);
    const auto first = machine.take_next();
    for (std::size_t part = 1; part < 5; ++part) {
      machine.await_pending(1);
      CHECK(machine.run_next());
      await_more(transfer, (part - 1) * kPart);
    }
    CHECK(transfer.bytes_done() == 4 * kPart);
    CHECK_FALSE(transfer.is_done());
    first();
    transfer.wait();
  };
  const DeviceBuffer buffer =
      fixture.buffers().create(fixture.device(0), content.data(), content.size(), in_parts());
  hold_first(buffer.ready());
  hold_first(buffer.read(target.data(), 0, target.size(), in_parts()));
  CHECK(are_equal(target, content));
}

TEST_CASE("what a backend cannot do in parts is one part, which cancel does not end") {
  BackendFixture fixture;
  FakeMachine& machine = *fixture.machine;
  machine.can_fill = false;
  machine.can_read_parts = false;
  machine.is_late = true;
  const auto content = numbered_bytes(4 * kPart);
  std::vector<std::byte> target(content.size());
  const auto check_whole = [&](Transfer transfer) {
    CHECK(machine.pending_count() == 1);
    CHECK(transfer.bytes_done() == 0);
    transfer.cancel();
    CHECK(machine.run_next());
    transfer.wait();
    CHECK(transfer.bytes_done() == content.size());
  };
  const DeviceBuffer buffer =
      fixture.buffers().create(fixture.device(0), content.data(), content.size(), in_parts());
  check_whole(buffer.ready());
  CHECK(machine.whole_created == 1);
  check_whole(buffer.read(target.data(), 0, target.size(), in_parts()));
  CHECK(machine.ranges_read == 1);
  CHECK(are_equal(target, content));
}

TEST_CASE("what a backend no longer reads in parts is read by one call") {
  BackendFixture fixture;
  FakeMachine& machine = *fixture.machine;
  const auto content = numbered_bytes(6 * kPart);
  std::vector<std::byte> target(content.size());
  const DeviceBuffer buffer =
      fixture.buffers().create(fixture.device(0), content.data(), content.size());
  machine.on_part = [&](int, std::span<const std::byte>) {
    if (machine.ranges_read == 1) machine.can_read_parts = false;  // the second part tells
  };
  const Transfer read = buffer.read(target.data(), 0, target.size(), in_parts());
  read.wait();
  CHECK(machine.ranges_read == 3);
  CHECK(read.bytes_done() == content.size());
  CHECK(are_equal(target, content));
}

TEST_CASE("a scatter and a gather copy each device in parts, at the same time") {
  BackendFixture fixture;
  fixture.register_fake("fake2");
  const Device other = Device::of(DeviceType::register_name("fake2"), 1);
  FakeMachine& machine = *fixture.machine;
  const std::size_t sizes[] = {3 * kPart, 5, 0, 2 * kPart + 9, kPart};
  const BufferShard shards[] = {{fixture.device(0), sizes[0]},
                                {fixture.device(1), sizes[1]},
                                {other, sizes[2]},
                                {other, sizes[3]},
                                {fixture.device(0), sizes[4]}};
  const auto content = numbered_bytes(6 * kPart + 14);
  machine.is_late = true;
  const auto parts = fixture.buffers().scatter(content.data(), content.size(), shards, in_parts());
  machine.await_pending(5);  // two of two devices, and the only one of the other
  CHECK(machine.pending_count() == 5);
  run_until_done(machine, parts[0].ready());
  CHECK(parts[4].ready().bytes_done() == content.size());
  CHECK(machine.parts_written == 3 + 1 + 3 + 1);
  CHECK(machine.whole_created == 0);

  machine.ranges_read = 0;
  std::vector<std::byte> target(content.size());
  const Transfer gathered =
      fixture.buffers().gather(target.data(), target.size(), parts, in_parts());
  machine.await_pending(5);
  CHECK(machine.pending_count() == 5);
  run_until_done(machine, gathered, true);
  gathered.wait();
  CHECK(machine.ranges_read == 3 + 1 + 3 + 1);
  CHECK(are_equal(target, content));
  CHECK(fixture.buffers().counters(fixture.device(0)).bytes_written == sizes[0] + sizes[4]);
  CHECK(fixture.buffers().counters(fixture.device(0)).bytes_read == sizes[0] + sizes[4]);
}

TEST_CASE("a device whose parts do not end holds up no other device") {
  BackendFixture fixture;
  FakeMachine& machine = *fixture.machine;
  machine.late_device = 0;
  const auto content = numbered_bytes(5 * kPart);
  const auto create = [&](int device) {
    return fixture.buffers().create(fixture.device(device), content.data(), content.size(),
                                    in_parts());
  };
  const DeviceBuffer stuck[] = {create(0), create(0)};
  machine.await_pending(2);
  for (int copy = 0; copy < 10; ++copy) {
    const DeviceBuffer buffer = create(1);
    buffer.ready().wait();
    std::vector<std::byte> target(content.size());
    buffer.read(target.data(), 0, target.size(), in_parts()).wait();
    CHECK(are_equal(target, content));
  }
  CHECK(machine.pending_count() == 2);
  for (const DeviceBuffer& buffer : stuck) {
    CHECK(buffer.ready().bytes_done() == 0);
    run_until_done(machine, buffer.ready());
  }
  machine.late_device = -1;
  for (const DeviceBuffer& buffer : stuck) CHECK(are_equal(content_of(buffer), content));
}

TEST_CASE("a mapping of memory that is copied in parts ends after the copy") {
  BackendFixture fixture;
  FakeMachine& machine = *fixture.machine;
  machine.can_map = true;
  const auto content = numbered_bytes(4 * kPart);
  std::vector<std::byte> target(content.size());
  DeviceBuffer first = fixture.buffers().create(fixture.device(0), content.data(), 2 * kPart);
  DeviceBuffer second =
      fixture.buffers().create(fixture.device(0), content.data() + 2 * kPart, 2 * kPart);
  machine.is_late = true;
  const auto end_during = [&](std::byte* memory, const auto& start) {
    HostMapping mapping = fixture.buffers().map_host_memory(fixture.device(0), memory + 2 * kPart,
                                                            2 * kPart);  // used by later parts only
    const Transfer transfer = start();
    std::atomic<bool> has_ended = false;
    std::thread ending([&] {
      mapping = {};
      CHECK(transfer.bytes_done() + kPart >= content.size());  // the last part may be ending
      has_ended = true;
    });
    // Long enough for a thread that does not wait.
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    CHECK_FALSE(has_ended);
    run_until_done(machine, transfer);
    ending.join();
    CHECK(machine.maps_live == 0);
  };
  const DeviceBuffer* const buffers[] = {&first, &second};
  end_during(target.data(), [&] {
    return fixture.buffers().gather(target.data(), target.size(), std::span(buffers), in_parts());
  });
  CHECK(are_equal(target, content));
  std::vector<std::byte> source = content;
  std::optional<DeviceBuffer> filled;
  end_during(source.data(), [&] {
    filled = fixture.buffers().create(fixture.device(0), source.data(), source.size(), in_parts());
    return filled->ready();
  });
}

TEST_CASE("copies through host memory are made in parts on their way to the backend") {
  BackendFixture fixture;
  FakeMachine& machine = *fixture.machine;
  Runtime& runtime = fixture.runtime();
  const auto content = numbered_bytes(3 * kPart);
  const StreamLease stream = runtime.streams(Device::cuda(0)).acquire();
  const Allocation memory = runtime.memory(Device::cuda(0)).allocate(content.size(), stream);
  runtime.copier().copy(memory.data(), content.data(), content.size(), stream);
  const DeviceBuffer buffer = fixture.buffers().create(fixture.device(0), memory.data(),
                                                       content.size(), stream, in_parts());
  CHECK(are_equal(content_of(buffer), content));
  CHECK(machine.parts_written == 3);
}

TEST_CASE("destructors wait for the parts that use the memory of the program") {
  BackendFixture fixture;
  FakeMachine& machine = *fixture.machine;
  machine.is_late = true;
  std::atomic<bool> is_gone = false;
  std::thread owner([&] {
    {
      auto content = numbered_bytes(3 * kPart);
      const DeviceBuffer buffer =
          fixture.buffers().create(fixture.device(0), content.data(), content.size(), in_parts());
      std::vector<std::byte> target(content.size());
      const Transfer read = buffer.read(target.data(), 0, target.size(), in_parts());
    }
    is_gone = true;
  });
  for (int part = 0; part < 6; ++part) {
    machine.await_pending(1);
    CHECK_FALSE(is_gone);
    CHECK(machine.run_next());
  }
  owner.join();
}

TEST_CASE("with keep_alive a copy in parts continues without its owners") {
  BackendFixture fixture;
  FakeMachine& machine = *fixture.machine;
  machine.is_late = true;
  auto content = std::make_shared<std::vector<std::byte>>(numbered_bytes(3 * kPart));
  const auto expected = *content;
  auto target = std::make_shared<std::vector<std::byte>>(content->size());
  std::atomic<int> calls = 0;
  {
    TransferOptions filling = in_parts();
    filling.keep_alive = content;
    const DeviceBuffer buffer = fixture.buffers().create(fixture.device(0), content->data(),
                                                         content->size(), std::move(filling));
    TransferOptions reading = in_parts();
    reading.keep_alive = target;
    reading.on_done = [&, target](const std::exception_ptr& failure) {
      CHECK(failure == nullptr);
      CHECK(are_equal(*target, expected));
      ++calls;
    };
    const Transfer read = buffer.read(target->data(), 0, target->size(), std::move(reading));
  }
  content = nullptr;
  while (calls == 0) {
    machine.run_next();
    std::this_thread::yield();
  }
  CHECK(calls == 1);
  CHECK(machine.buffers_live == 0);
}

TEST_CASE("the end of the Runtime waits for parts, and copies that are pending complete") {
  const auto content = numbered_bytes(9 * kPart);
  std::vector<std::byte> target(content.size());
  std::atomic<int> calls = 0;
  {
    BackendFixture fixture;
    FakeMachine& machine = *fixture.machine;
    machine.is_late = true;
    TransferOptions options = in_parts();
    options.on_done = [&](const std::exception_ptr& failure) {
      if (failure == nullptr) ++calls;
    };
    DeviceBuffer buffer =
        fixture.buffers().create(fixture.device(0), content.data(), content.size(), options);
    Transfer read = buffer.read(target.data(), 0, target.size(), options);
    std::thread ending([&] {
      read.detach();
      read = {};
      fixture.simulation.runtime.reset();
    });
    while (calls < 2) {
      machine.run_next();
      std::this_thread::yield();
    }
    ending.join();
    CHECK(machine.backends_live == 0);
    CHECK(buffer.bytes() == content.size());
  }
  CHECK(are_equal(target, content));
}

TEST_CASE("a copy in parts whose thread cannot be started is refused, and nothing is left") {
  if (!kCanRefuseThreads) return;
  BackendFixture fixture;
  const auto content = numbered_bytes(3 * kPart);
  std::vector<std::byte> target(content.size());
  const DeviceBuffer whole =
      fixture.buffers().create(fixture.device(0), content.data(), content.size());
  {
    const RefusedThreads refused;
    CHECK_THROWS_AS(static_cast<void>(fixture.buffers().create(fixture.device(0), content.data(),
                                                               content.size(), in_parts())),
                    Exhausted);
    CHECK_THROWS_AS(whole.read(target.data(), 0, target.size(), in_parts()), Exhausted);
  }
  CHECK(fixture.machine->buffers_live == 1);
  CHECK(fixture.machine->fillings_live == 0);
  CHECK(fixture.buffers().counters(fixture.device(0)).bytes_written == content.size());
  whole.read(target.data(), 0, target.size(), in_parts()).wait();
  CHECK(are_equal(target, content));
}

TEST_CASE("many threads copy in parts to both devices, and some of them cancel") {
  BackendFixture fixture;
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (unsigned seed = 0; seed < 4; ++seed) {
    threads.emplace_back([&, seed] {
      const auto content = numbered_bytes(3 * kPart + seed, seed);
      for (int round = 0; round < 40; ++round) {
        const Device device = fixture.device(round % 2);
        const DeviceBuffer buffer =
            fixture.buffers().create(device, content.data(), content.size(), in_parts());
        std::vector<std::byte> target(content.size());
        Transfer read = buffer.read(target.data(), 0, target.size(), in_parts());
        if (round % 5 == 0) read.cancel();
        try {
          read.wait();
          wrong += are_equal(target, content) ? 0 : 1;
        } catch (const Cancelled&) {
          wrong += round % 5 == 0 ? 0 : 1;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
}

}  // namespace part_copy_test
