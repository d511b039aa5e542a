// SPDX-License-Identifier: Apache-2.0
// Copies in parts that fail, are cancelled, or get no memory, at each part and at each allocation.
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstring>
#include <functional>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "berth/bytes.hpp"
#include "berth/device_buffer.hpp"

#include "backend/backend_fixture.hpp"
#include "support/scarce_memory.hpp"
#include "support/temporary_folder.hpp"
#include "support/thinned.hpp"

namespace part_failure_test {

using namespace berth;
using namespace berth::test;

namespace {

constexpr std::size_t kParts = 4;

/// The last part is small.
constexpr std::size_t bytes_of(std::size_t part_bytes) {
  return (kParts - 1) * part_bytes + 4096;
}

/// Every copy that is made in parts: host memory and a file, each filling a buffer or read from
/// one, and the two that involve several devices.
class Copies {
 public:
  explicit Copies(BackendFixture& fixture)
      : fixture_(fixture),
        memory_bytes(bytes_of(64_KiB)),
        file_bytes(bytes_of(4_MiB)),
        content(numbered_bytes(file_bytes)),
        target(file_bytes) {
    write_content(source_path, content);
    source = fixture.buffers().create(fixture.device(0), content.data(), file_bytes);
    source.ready().wait();
  }

  struct Started {
    Transfer transfer;
    std::vector<DeviceBuffer> buffers;
  };
  struct Kind {
    const char* name;
    std::size_t part_bytes;
    std::function<Started()> start;
    std::function<bool(const Started&)> is_right;  ///< every byte, after a success
  };

  [[nodiscard]] std::vector<Kind> all() {
    return {
        {"create", 64_KiB,
         [this] {
           return filled([&] {
             return fixture_.buffers().create(fixture_.device(0), content.data(), memory_bytes,
                                              with(64_KiB));
           });
         },
         [this](const Started& made) { return has_content(made.buffers[0], memory_bytes); }},
        {"read", 64_KiB,
         [this] {
           return Started{source.read(target.data(), 0, memory_bytes, with(64_KiB)), {}};
         },
         [this](const Started&) { return is_target(memory_bytes); }},
        {"scatter", 64_KiB,
         [this] {
           const BufferShard shards[] = {{fixture_.device(0), memory_bytes}};
           Started made;
           made.buffers =
               fixture_.buffers().scatter(content.data(), memory_bytes, shards, with(64_KiB));
           made.transfer = made.buffers[0].ready();
           return made;
         },
         [this](const Started& made) { return has_content(made.buffers[0], memory_bytes); }},
        {"gather", 64_KiB,
         [this] {
           const DeviceBuffer* const sources[] = {&small};
           return Started{
               fixture_.buffers().gather(target.data(), memory_bytes, sources, with(64_KiB)), {}};
         },
         [this](const Started&) { return is_target(memory_bytes); }},
        {"create from a file", 4_MiB,
         [this] {
           const FileRange range{File::open_to_read(source_path), 0, file_bytes};
           return filled(
               [&] { return fixture_.buffers().create(fixture_.device(0), range, with(0)); });
         },
         [this](const Started& made) { return has_content(made.buffers[0], file_bytes); }},
        {"read to a file", 4_MiB,
         [this] {
           return Started{
               source.read(FileRange{File::open_to_write(target_path), 0, file_bytes}, 0, with(0)),
               {}};
         },
         [this](const Started&) {
           File::open_to_read(target_path).read(std::span(target).first(file_bytes), 0);
           return is_target(file_bytes);
         }}};
  }
  /// Before each copy.
  void clear() {
    std::fill(target.begin(), target.end(), std::byte{0});
    std::filesystem::remove(target_path);
  }

 private:
  [[nodiscard]] TransferOptions with(std::size_t part_bytes) const {
    TransferOptions options;
    options.part_bytes = part_bytes;
    options.keep_alive = keep_alive;
    options.on_done = on_done;
    return options;
  }
  /// Allocates nothing once the copy has started.
  template <class Create>
  static Started filled(const Create& create) {
    Started made;
    made.buffers.reserve(1);
    made.buffers.push_back(create());
    made.transfer = made.buffers[0].ready();
    return made;
  }
  [[nodiscard]] bool has_content(const DeviceBuffer& buffer, std::size_t bytes) const {
    const auto read = content_of(buffer);
    return read.size() == bytes && std::memcmp(read.data(), content.data(), bytes) == 0;
  }
  [[nodiscard]] bool is_target(std::size_t bytes) const {
    return std::memcmp(content.data(), target.data(), bytes) == 0;
  }

  BackendFixture& fixture_;
  const TemporaryFolder folder_;
  const std::string source_path = (folder_.path() / "source").string();
  const std::string target_path = (folder_.path() / "target").string();

 public:
  const std::size_t memory_bytes;
  const std::size_t file_bytes;
  const std::vector<std::byte> content;
  std::vector<std::byte> target;
  std::shared_ptr<const void> keep_alive;  ///< of each copy, and on_done
  std::function<void(std::exception_ptr)> on_done;
  DeviceBuffer source;
  DeviceBuffer small = fixture_.buffers().create(fixture_.device(0), content.data(), memory_bytes);
};

/// Ends the first `count` operations, one at a time.
void run_parts(FakeMachine& machine, std::size_t count) {
  for (std::size_t part = 0; part < count; ++part) {
    machine.await_pending(1);
    CHECK(machine.run_next());
  }
}

void run_until_done(FakeMachine& machine, const Transfer& transfer) {
  while (!transfer.is_done()) {
    machine.run_next();
    std::this_thread::yield();
  }
}

/// A copy that has ended leaves nothing behind, and another one succeeds.
void expect_next_is_right(FakeMachine& machine, Copies& copies, const Copies::Kind& kind,
                          Copies::Started& ended) {
  CHECK(machine.pending_count() == 0);
  CHECK(machine.fillings_live == 0);
  machine.is_late = false;
  ended = {};
  copies.clear();
  const Copies::Started next = kind.start();
  next.transfer.wait();
  CHECK(kind.is_right(next));
}

}  // namespace

TEST_CASE("a copy is cancelled at each part: what is pending ends, and nothing else begins") {
  BackendFixture fixture;
  FakeMachine& machine = *fixture.machine;
  Copies copies(fixture);
  for (const Copies::Kind& kind : copies.all()) {
    for (std::size_t done = 0; done + 2 < kParts; ++done) {
      CAPTURE(kind.name);
      CAPTURE(done);
      copies.clear();
      std::atomic<std::size_t> begun = 0;
      machine.on_part = [&](int, std::span<const std::byte>) { ++begun; };
      machine.is_late = true;
      Copies::Started made = kind.start();
      run_parts(machine, done);
      machine.await_pending(2);
      while (made.transfer.bytes_done() < done * kind.part_bytes) std::this_thread::yield();
      made.transfer.cancel();
      CHECK_FALSE(made.transfer.is_done());
      CHECK(machine.run_next());
      CHECK_FALSE(made.transfer.is_done());  // the other part
      CHECK(machine.run_next());
      run_until_done(machine, made.transfer);
      CHECK_THROWS_AS(made.transfer.wait(), Cancelled);
      CHECK(begun == done + 2);
      machine.on_part = nullptr;
      expect_next_is_right(machine, copies, kind, made);
    }
  }
}

TEST_CASE("a copy is cancelled before its first part and after its last") {
  BackendFixture fixture;
  FakeMachine& machine = *fixture.machine;
  Copies copies(fixture);
  for (const Copies::Kind& kind : copies.all()) {
    CAPTURE(kind.name);
    copies.clear();
    // Another copy, whose part is being started, keeps the thread.
    std::atomic<bool> is_held = false;
    std::atomic<bool> is_released = false;
    machine.on_part = [&](int, std::span<const std::byte>) {
      is_held = true;
      while (!is_released) std::this_thread::yield();
    };
    const Copies::Started holding = kind.start();
    while (!is_held) std::this_thread::yield();
    const int before = machine.parts_written + machine.ranges_read;
    Copies::Started waiting = kind.start();
    waiting.transfer.cancel();
    is_released = true;
    CHECK_THROWS_AS(waiting.transfer.wait(), Cancelled);
    CHECK(waiting.transfer.bytes_done() == 0);
    holding.transfer.wait();
    CHECK(machine.parts_written + machine.ranges_read == before + int(kParts));
    machine.on_part = nullptr;
    CHECK(kind.is_right(holding));

    Transfer over = holding.transfer;
    over.cancel();
    over.wait();
  }
}

TEST_CASE("a part that fails ends the copy with its reason, at each part") {
  BackendFixture fixture;
  FakeMachine& machine = *fixture.machine;
  Copies copies(fixture);
  for (const Copies::Kind& kind : copies.all()) {
    for (std::size_t failing = 0; failing < kParts; ++failing) {
      CAPTURE(kind.name);
      CAPTURE(failing);
      copies.clear();
      machine.is_late = true;
      Copies::Started made = kind.start();
      run_parts(machine, failing);
      const std::size_t behind = std::min<std::size_t>(2, kParts - failing) - 1;
      machine.await_pending(1 + behind);
      const auto failed = machine.take_next();
      const auto other = behind > 0 ? machine.take_next() : nullptr;
      machine.failure = "part " + std::to_string(failing);
      failed();
      machine.failure.clear();
      if (other != nullptr) other();
      while (!made.transfer.is_done()) std::this_thread::yield();
      CHECK(message_of<BackendError>([&] { made.transfer.wait(); }) ==
            "fake: part " + std::to_string(failing));
      expect_next_is_right(machine, copies, kind, made);
    }
  }
}

TEST_CASE("a part that the backend refuses ends the copy with its reason, at each part") {
  BackendFixture fixture;
  FakeMachine& machine = *fixture.machine;
  Copies copies(fixture);
  for (const Copies::Kind& kind : copies.all()) {
    for (std::size_t refused = 0; refused < kParts; ++refused) {
      CAPTURE(kind.name);
      CAPTURE(refused);
      std::size_t begun = 0;  // of the device's thread
      machine.on_part = [&](int, std::span<const std::byte>) {
        if (begun++ == refused) throw BackendError("fake: not this part", 13);
      };
      const Copies::Started made = kind.start();
      CHECK(message_of<BackendError>([&] { made.transfer.wait(); }) == "fake: not this part");
      machine.on_part = nullptr;
      CHECK(machine.fillings_live == 0);
    }
  }
}

TEST_CASE("a failure or a cancel on one device ends a scatter and a gather on all") {
  BackendFixture fixture;
  FakeMachine& machine = *fixture.machine;
  const auto content = numbered_bytes(20 * 64_KiB);
  std::vector<std::byte> target(content.size());
  const BufferShard shards[] = {{fixture.device(0), 10 * 64_KiB}, {fixture.device(1), 10 * 64_KiB}};
  TransferOptions options;
  options.part_bytes = 64_KiB;
  const std::vector<DeviceBuffer> sources =
      fixture.buffers().scatter(content.data(), content.size(), shards);
  for (const bool gathers : {false, true}) {
    for (const bool cancels : {false, true}) {
      CAPTURE(gathers);
      CAPTURE(cancels);
      machine.is_late = true;
      std::vector<DeviceBuffer> made;
      Transfer transfer;
      if (gathers) {
        transfer = fixture.buffers().gather(target.data(), target.size(), sources, options);
      } else {
        made = fixture.buffers().scatter(content.data(), content.size(), shards, options);
        transfer = made[0].ready();
      }
      machine.await_pending(4);
      if (cancels) transfer.cancel();
      machine.failure = cancels ? "" : "broken";
      const auto failed = machine.take_next();
      failed();
      machine.failure.clear();
      CHECK_FALSE(transfer.is_done());
      run_until_done(machine, transfer);
      if (cancels)
        CHECK_THROWS_AS(transfer.wait(), Cancelled);
      else
        CHECK_THROWS_AS(transfer.wait(), BackendError);
      CHECK(transfer.bytes_done() <= 4 * 64_KiB);
      CHECK(machine.fillings_live == 0);
      machine.is_late = false;
    }
  }
}

TEST_CASE("a scatter in parts that the backend refuses halfway leaves no buffer") {
  BackendFixture fixture;
  FakeMachine& machine = *fixture.machine;
  const auto content = numbered_bytes(4 * 64_KiB);
  const BufferShard shards[] = {{fixture.device(0), 2 * 64_KiB}, {fixture.device(1), 2 * 64_KiB}};
  TransferOptions options;
  options.part_bytes = 64_KiB;
  machine.buffers_max = 1;
  CHECK_THROWS_AS(
      static_cast<void>(fixture.buffers().scatter(content.data(), content.size(), shards, options)),
      BackendError);
  CHECK(machine.buffers_live == 0);
  CHECK(machine.fillings_live == 0);
  CHECK(machine.parts_written == 0);
  machine.buffers_max = 2;
  const auto parts = fixture.buffers().scatter(content.data(), content.size(), shards, options);
  CHECK(are_equal(content_of(parts[1]), std::vector(content.begin() + 2 * 64_KiB, content.end())));
}

TEST_CASE("a call that gets no memory has no effect, at each allocation") {
  BackendFixture fixture;
  FakeMachine& machine = *fixture.machine;
  Copies copies(fixture);
  const Thinned thinned(5);
  std::atomic<int> told = 0;
  const auto owner = std::make_shared<int>();
  copies.keep_alive = owner;
  constexpr long kOwners = 2;  // `owner`, and the options of later copies
  copies.on_done = [&told](std::exception_ptr) { ++told; };
  for (const Copies::Kind& kind : copies.all()) {
    CAPTURE(kind.name);
    bool has_failed = true;
    for (std::size_t granted = 0; has_failed; granted += std::size_t(thinned.step())) {
      CAPTURE(granted);
      REQUIRE(granted < 200);
      copies.clear();
      told = 0;
      const int before = machine.buffers_live;
      std::optional<Copies::Started> made;
      {
        const ScarceMemory scarce(granted, 1);
        try {
          made.emplace(kind.start());
        } catch (const std::bad_alloc&) {
          made.reset();
        }
        has_failed = scarce.calls() > granted;
      }
      const bool was_made = made.has_value();
      if (made) {  // the allocation was one that the caller can do without
        made->transfer.wait();
        CHECK(kind.is_right(*made));
        while (told == 0 || owner.use_count() > kOwners) std::this_thread::yield();
        made.reset();
      }
      CHECK(told == (was_made ? 1 : 0));
      CHECK(owner.use_count() == kOwners);
      CHECK(machine.buffers_live == before);
      CHECK(machine.fillings_live == 0);
    }
  }
}

TEST_CASE("a thread that gets no memory fails its copy and no other, at each allocation") {
  BackendFixture fixture;
  FakeMachine& machine = *fixture.machine;
  Copies copies(fixture);
  const Thinned thinned(5);
  for (const Copies::Kind& kind : copies.all()) {
    CAPTURE(kind.name);
    bool has_failed = true;
    for (std::size_t granted = 0; has_failed; granted += std::size_t(thinned.step())) {
      CAPTURE(granted);
      REQUIRE(granted < 200);
      copies.clear();
      // Of the thread that copies, from its first part on.
      static thread_local std::optional<ScarceMemory> scarce;
      std::atomic<int> parts = 0;
      machine.on_part = [&, granted](int, std::span<const std::byte>) {
        if (parts++ == 0) scarce.emplace(granted, 1);
      };
      const Copies::Started made = kind.start();
      try {
        made.transfer.wait();
        has_failed = false;
      } catch (const std::bad_alloc&) {
      }
      // The shortage may be left to the thread's next copy, which ends it.
      machine.on_part = [&](int, std::span<const std::byte>) { scarce.reset(); };
      if (!has_failed) CHECK(kind.is_right(made));
      const Copies::Started forgetting = kind.start();
      while (!forgetting.transfer.is_done()) std::this_thread::yield();
      static_cast<void>(forgetting.transfer.failure());
      const Copies::Started next = kind.start();
      next.transfer.wait();
      machine.on_part = nullptr;
      CHECK(kind.is_right(next));
      CHECK(machine.fillings_live == 0);
    }
  }
}

}  // namespace part_failure_test
