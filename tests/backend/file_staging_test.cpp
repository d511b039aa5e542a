// SPDX-License-Identifier: Apache-2.0
// The memory of berth through which copies between files and buffers pass.
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "berth/bytes.hpp"
#include "berth/device_buffer.hpp"

#include "backend/backend_fixture.hpp"
#include "support/temporary_folder.hpp"
#include "support/thinned.hpp"

namespace file_staging_test {

using namespace berth;
using namespace berth::test;

namespace {

constexpr std::size_t kStagingBytes = 12_MiB;

/// Files of 9 MiB, which are three parts, and the addresses of the parts that a backend got.
class Fixture : public BackendFixture {
 public:
  Fixture() {
    write_content(source_path_, content);
    machine->on_part = [this](int device, std::span<const std::byte> host) {
      const std::lock_guard lock(mutex_);
      parts_[device].insert(reinterpret_cast<std::uintptr_t>(host.data()));
    };
  }
  ~Fixture() { machine->on_part = nullptr; }

  DeviceBuffer load(int index) {
    return buffers().create(device(index),
                            FileRange{File::open_to_read(source_path_), 0, content.size()});
  }
  Transfer save(const DeviceBuffer& buffer, int number) {
    return buffer.read(FileRange{File::open_to_write(target_path(number)), 0, content.size()}, 0);
  }
  [[nodiscard]] std::vector<std::byte> saved(int number) const {
    return content_of_file(target_path(number));
  }
  [[nodiscard]] std::set<std::uintptr_t> parts(int index) {
    const std::lock_guard lock(mutex_);
    return parts_[index];
  }
  [[nodiscard]] std::uint64_t staging_bytes(int index) {
    return buffers().counters(device(index)).staging_bytes;
  }
  void run_until_done(const Transfer& transfer) {
    while (!transfer.is_done()) {
      machine->run_next();
      std::this_thread::yield();
    }
  }

  const std::vector<std::byte> content = numbered_bytes(9_MiB);

 private:
  [[nodiscard]] std::string target_path(int number) const {
    return (folder_.path() / ("target" + std::to_string(number))).string();
  }

  const TemporaryFolder folder_;
  const std::string source_path_ = (folder_.path() / "source").string();
  std::mutex mutex_;
  std::set<std::uintptr_t> parts_[2];
};

}  // namespace

TEST_CASE("a hundred pending copies of a device share three parts, which are mapped once") {
  Fixture fixture;
  FakeMachine& machine = *fixture.machine;
  machine.can_map = true;
  machine.is_late = true;
  CHECK(fixture.staging_bytes(0) == 0);
  const auto half = int(Thinned(5).part_of(50));
  std::vector<DeviceBuffer> loaded;
  for (int copy = 0; copy < half; ++copy) loaded.push_back(fixture.load(0));
  std::vector<Transfer> saved;
  for (int copy = 0; copy < half; ++copy)
    saved.push_back(fixture.save(loaded[std::size_t(copy)], copy % 3));
  machine.await_pending(2);
  CHECK(machine.pending_count() == 2);
  CHECK(fixture.staging_bytes(0) == kStagingBytes);
  CHECK(fixture.staging_bytes(1) == 0);
  for (const Transfer& transfer : saved) fixture.run_until_done(transfer);
  for (const Transfer& transfer : saved) transfer.wait();
  const auto parts = fixture.parts(0);
  CHECK(parts.size() <= 3);
  for (const std::uintptr_t part : parts) CHECK(part % 4096 == 0);
  CHECK(machine.maps_made == 1);
  CHECK(machine.maps_live == 1);
  CHECK(fixture.staging_bytes(0) == kStagingBytes);
  machine.is_late = false;
  machine.on_part = nullptr;
  for (const DeviceBuffer& buffer : loaded) CHECK(are_equal(content_of(buffer), fixture.content));
  for (int number = 0; number < 3; ++number)
    CHECK(are_equal(fixture.saved(number), fixture.content));
}

TEST_CASE("each device has its own parts, and each is mapped once") {
  Fixture fixture;
  fixture.machine->can_map = true;
  for (int round = 0; round < 3; ++round) {
    for (const int index : {0, 1}) {
      const DeviceBuffer buffer = fixture.load(index);
      fixture.save(buffer, index).wait();
      CHECK(are_equal(fixture.saved(index), fixture.content));
    }
  }
  CHECK(fixture.machine->maps_made == 2);
  const auto first = fixture.parts(0);
  for (const std::uintptr_t part : fixture.parts(1)) CHECK_FALSE(first.contains(part));
}

TEST_CASE("a backend that fails to map, or maps nothing, is no reason to fail") {
  Fixture fixture;
  FakeMachine& machine = *fixture.machine;
  for (const bool can_map : {false, true}) {
    CAPTURE(can_map);
    machine.can_map = can_map;
    machine.map_failure = "not this memory";
    for (int copy = 0; copy < 3; ++copy) {
      const DeviceBuffer buffer = fixture.load(0);
      fixture.save(buffer, copy).wait();
      CHECK(are_equal(fixture.saved(copy), fixture.content));
    }
    CHECK(machine.maps_made == (can_map ? 1 : 0));  // it is not tried again
    CHECK(machine.maps_live == 0);
    CHECK(fixture.buffers().trim() == kStagingBytes);
  }
  CHECK(fixture.simulation.reports.count(Severity::error) == 0);
}

TEST_CASE("trim frees the parts of devices without pending copies, and later copies get new ones") {
  Fixture fixture;
  FakeMachine& machine = *fixture.machine;
  machine.can_map = true;
  CHECK(fixture.buffers().trim() == 0);
  for (const int index : {0, 1}) fixture.load(index).ready().wait();
  machine.late_device = 0;
  const DeviceBuffer pending = fixture.load(0);
  machine.await_pending(1);
  CHECK(fixture.buffers().trim() == kStagingBytes);
  CHECK(machine.maps_live == 1);
  CHECK(fixture.staging_bytes(0) == kStagingBytes);
  CHECK(fixture.staging_bytes(1) == 0);
  fixture.run_until_done(pending.ready());
  machine.late_device = -1;
  CHECK(fixture.buffers().trim() == kStagingBytes);
  CHECK(fixture.buffers().trim() == 0);
  CHECK(machine.maps_live == 0);
  const DeviceBuffer again = fixture.load(0);
  again.ready().wait();
  CHECK(are_equal(content_of(again), fixture.content));
  CHECK(are_equal(content_of(pending), fixture.content));
  CHECK(machine.maps_live == 1);
}

TEST_CASE("the parts of cancelled copies are kept until the backend ends them") {
  Fixture fixture;
  FakeMachine& machine = *fixture.machine;
  machine.late_device = 0;
  std::vector<DeviceBuffer> loaded;
  for (int copy = 0; copy < 4; ++copy) {
    loaded.push_back(fixture.load(0));
    if (copy == 0) machine.await_pending(2);
    if (copy == 1) machine.await_pending(3);
    if (copy < 2) loaded.back().ready().cancel();
  }
  // All parts are in use: the third copy waits for one, until it is cancelled, and then the fourth.
  CHECK(machine.pending_count() == 3);
  CHECK(fixture.buffers().trim() == 0);
  loaded[2].ready().cancel();
  CHECK_THROWS_AS(loaded[2].ready().wait(), Cancelled);
  CHECK_FALSE(loaded[0].ready().is_done());
  CHECK(machine.pending_count() == 3);
  CHECK(machine.run_next());
  machine.await_pending(3);
  CHECK(fixture.parts(0).size() == 3);
  const DeviceBuffer other = fixture.load(1);
  other.ready().wait();
  fixture.run_until_done(loaded[3].ready());
  machine.late_device = -1;
  machine.on_part = nullptr;
  CHECK(are_equal(content_of(loaded[3]), fixture.content));
  CHECK(are_equal(content_of(other), fixture.content));
  for (const int copy : {0, 1})
    CHECK_THROWS_AS(loaded[std::size_t(copy)].ready().wait(), Cancelled);
}

TEST_CASE("copies of memory have a thread of their own, beside that of the files of their device") {
  Fixture fixture;
  constexpr std::size_t kPart = 64_KiB;
  std::atomic<bool> is_copied = false;
  fixture.machine->on_part = [&](int, std::span<const std::byte> host) {
    while (host.size() > kPart && !is_copied) std::this_thread::yield();  // the file's
  };
  const DeviceBuffer of_file = fixture.load(0);
  const DeviceBuffer of_memory = fixture.buffers().create(
      fixture.device(0), fixture.content.data(), fixture.content.size(), {.part_bytes = kPart});
  of_memory.ready().wait();
  is_copied = true;
  of_file.ready().wait();
  fixture.machine->on_part = nullptr;
  CHECK(are_equal(content_of(of_memory), fixture.content));
  CHECK(are_equal(content_of(of_file), fixture.content));
}

TEST_CASE("files of a device whose parts do not end hold up no other device, nor its memory") {
  Fixture fixture;
  FakeMachine& machine = *fixture.machine;
  const DeviceBuffer source =
      fixture.buffers().create(fixture.device(0), fixture.content.data(), fixture.content.size());
  machine.late_device = 0;
  const DeviceBuffer stuck = fixture.load(0);
  const Transfer stuck_saving = fixture.save(source, 0);
  machine.await_pending(2);
  for (int copy = 0; copy < 5; ++copy) {
    const DeviceBuffer buffer = fixture.load(1);
    fixture.save(buffer, 1).wait();
    CHECK(are_equal(fixture.saved(1), fixture.content));
  }
  CHECK(machine.pending_count() == 2);
  // Copies of host memory in parts do not wait for those of files.
  TransferOptions options;
  options.part_bytes = 1_MiB;
  std::vector<std::byte> target(4_MiB);
  const Transfer read = source.read(target.data(), 0, target.size(), options);
  machine.await_pending(4);
  for (int part = 0; part < 4; ++part) {
    machine.await_pending(3);
    machine.take_last()();
  }
  read.wait();
  CHECK(std::equal(target.begin(), target.end(), fixture.content.begin()));
  CHECK(stuck.ready().bytes_done() == 0);
  fixture.run_until_done(stuck.ready());
  fixture.run_until_done(stuck_saving);
  CHECK(are_equal(fixture.saved(0), fixture.content));
}

TEST_CASE("parts of files that end in the wrong order arrive where they belong") {
  Fixture fixture;
  FakeMachine& machine = *fixture.machine;
  machine.is_late = true;
  const auto hold_first = [&](const Transfer& transfer) {
    machine.await_pending(2);
    const auto first = machine.take_next();
    CHECK(machine.run_next());
    machine.await_pending(1);
    CHECK(machine.run_next());  // the third
    while (transfer.bytes_done() < 5_MiB) std::this_thread::yield();
    CHECK_FALSE(transfer.is_done());
    first();
    transfer.wait();
  };
  const DeviceBuffer buffer = fixture.load(0);
  hold_first(buffer.ready());
  hold_first(fixture.save(buffer, 0));
  CHECK(are_equal(fixture.saved(0), fixture.content));
}

TEST_CASE("copies of files end, or are waited for, with the Runtime") {
  std::vector<std::byte> expected;
  std::atomic<int> calls = 0;
  const TemporaryFolder folder;
  const std::string path = (folder.path() / "saved").string();
  {
    Fixture fixture;
    FakeMachine& machine = *fixture.machine;
    machine.can_map = true;
    machine.is_late = true;
    expected = fixture.content;
    const DeviceBuffer buffer = fixture.load(1);
    Transfer saving = buffer.read(
        FileRange{File::open_to_write(path), 0, fixture.content.size()}, 0,
        {.on_done = [&](const std::exception_ptr& failure) { calls += failure == nullptr; }});
    std::thread ending([&] {
      saving.detach();
      saving = {};
      fixture.simulation.runtime.reset();
    });
    while (calls == 0) {
      machine.run_next();
      std::this_thread::yield();
    }
    ending.join();
    CHECK(machine.maps_live == 0);
  }
  std::vector<std::byte> written(expected.size());
  File::open_to_read(path).read(written, 0);
  CHECK(are_equal(written, expected));
}

TEST_CASE("threads copy files of both devices, and trim at the same time") {
  Fixture fixture;
  fixture.machine->can_map = true;
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  std::atomic<int> busy = 3;
  for (int number = 0; number < 3; ++number) {
    threads.emplace_back([&, number] {
      for (int round = 0; round < 5; ++round) {
        const DeviceBuffer buffer = fixture.load(number % 2);
        fixture.save(buffer, number).wait();
        wrong += are_equal(fixture.saved(number), fixture.content) ? 0 : 1;
      }
      --busy;
    });
  }
  while (busy > 0) static_cast<void>(fixture.buffers().trim());
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
}

}  // namespace file_staging_test
