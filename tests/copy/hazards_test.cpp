// SPDX-License-Identifier: Apache-2.0
// Copies under limits of hardware and drivers (docs/hazards.md): all bytes arrive, nothing hangs,
// and the simulated driver reports nothing.
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "copy/copy_program.hpp"
#include "copy/file_fixture.hpp"

namespace copy_hazards_test {

using namespace berth;
using namespace berth::test;

namespace {

constexpr std::size_t kSlot = 64_KiB;
constexpr std::size_t kSizes[] = {1, 3000, kSlot + 1, 5 * kSlot + 7, 300 * 1024};
constexpr const char* kHazards[] = {
    "connections=1",
    "connections=8",
    "queue=8",
    "driver_lock=on",
    "launch_blocking=on",
    "memory_operations=off",
    "connections=1,queue=8,driver_lock=on",
    "connections=8,queue=8,driver_lock=on",
    "connections=1,queue=8,launch_blocking=on",
    "launch_blocking=on,memory_operations=off",
    "launch_blocking=all",
    "connections=1,queue=8,driver_lock=on,launch_blocking=all",
};
constexpr const char* kModes[] = {"eager", "manual", "random"};
/// Seeds beyond the first few run in the random mode alone, which is the one that they change.
constexpr std::uint64_t kSeedsOfAllModes = 3;

sim::Config with(const char* hazard, const char* mode, std::uint64_t seed) {
  return sim::Config::parse(fmt::format("devices=2,progress={},seed={},{}", mode, seed, hazard));
}

CopierOptions few_slots(std::string_view hazard) {
  // A trial would end the use of gates, and with it the hazard.
  const bool has_tool = hazard.find("launch_blocking=all") != std::string_view::npos;
  CopierOptions options;
  options.staging_slot_bytes = kSlot;
  options.staging_slots = 4;
  options.workers = 2;
  options.direct_piece_bytes = kSlot;
  if (has_tool) options.gates = CopyGates::on;
  return options;
}

/// One side of a round trip: host memory or a file.
class Place {
 public:
  Place(CopyTest& test, const std::string& path, std::size_t kind, std::size_t bytes)
      : bytes_(bytes) {
    if (kind < 2)
      memory_ = std::make_unique<Buffer>(test, kind == 0 ? Kind::pageable : Kind::pinned, bytes);
    else
      path_ = path;
  }

  void write(const Bytes& content) {
    if (memory_ != nullptr)
      memory_->write(content);
    else
      write_file(path_, content);
  }
  [[nodiscard]] Bytes read() const {
    return memory_ != nullptr ? memory_->read() : read_file(path_);
  }

  Transfer start_to(Copier& copier, void* device, StreamRef stream) const {
    if (memory_ != nullptr) return copier.start(device, memory_->data(), bytes_, stream);
    return copier.start(device, {File::open_to_read(path_), 0, bytes_}, stream);
  }
  Transfer start_from(Copier& copier, const void* device, StreamRef stream) const {
    if (memory_ != nullptr) return copier.start(memory_->data(), device, bytes_, stream);
    return copier.start({File::open_to_write(path_), 0, bytes_}, device, stream);
  }

 private:
  std::size_t bytes_;
  std::unique_ptr<Buffer> memory_;
  std::string path_;
};

/// Host to device, on to another buffer, and back, on one stream.
class RoundTrip {
 public:
  RoundTrip(CopyTest& test, const std::string& path, int device, Random& random)
      : content_(pattern(kSizes[random.below(std::size(kSizes))], random.below(1000))),
        from_(test, path + ".in", random.below(3), content_.size()),
        first_(test, device == 0 ? Kind::device : Kind::peer, content_.size()),
        second_(test, device == 0 ? Kind::device : Kind::peer, content_.size()),
        to_(test, path + ".out", random.below(3), content_.size()) {
    from_.write(content_);
  }

  void start(Copier& copier, StreamRef stream) {
    transfers_.push_back(from_.start_to(copier, first_.data(), stream));
    transfers_.push_back(copier.start(second_.data(), first_.data(), content_.size(), stream));
    transfers_.push_back(to_.start_from(copier, second_.data(), stream));
  }
  void wait_backwards() const {
    for (std::size_t index = transfers_.size(); index-- > 0;) transfers_[index].wait();
  }
  [[nodiscard]] bool has_arrived() const { return to_.read() == content_; }

 private:
  const Bytes content_;
  Place from_;
  Buffer first_;
  Buffer second_;
  Place to_;
  std::vector<Transfer> transfers_;
};

void expect_no_findings(sim::Simulator& simulator) {
  for (const std::string& finding : simulator.take_findings()) FAIL_CHECK(finding);
}

/// Calls `body(hazard, mode, seed)` for all; with a sanitizer, with one or two modes a hazard.
template <class Body>
void for_each_hazard(Body&& body) {
  for_each_seed([&](std::uint64_t seed) {
    Thinned thinned(2);
    for (const char* const hazard : kHazards) {
      for (const char* const mode : kModes) {
        const bool is_random = std::string_view(mode) == "random";
        if (seed >= first_seed() + kSeedsOfAllModes && !is_random) continue;
        if (thinned.skips()) continue;
        CAPTURE(std::string(hazard));
        CAPTURE(std::string(mode));
        body(hazard, mode, seed);
      }
    }
  });
}

}  // namespace

TEST_CASE("copies on several streams in all directions arrive under each hazard") {
  for_each_hazard([](const char* hazard, const char* mode, std::uint64_t seed) {
    const TemporaryFolder folder;
    CopyTest test(with(hazard, mode, seed), few_slots(hazard));
    Random random(seed);
    std::vector<Stream> streams;
    for (int index = 0; index < 10; ++index) streams.push_back(test.stream(index % 3 == 2));
    std::deque<RoundTrip> trips;
    for (int index = 0; index < 20; ++index) {
      const std::string path = folder.path() / fmt::to_string(index);
      trips.emplace_back(test, path, index % 10 % 3 == 2, random);
    }
    for (int index = 0; index < 20; ++index)
      trips[std::size_t(index)].start(test.copier, streams[std::size_t(index % 10)]);
    streams[random.below(10)].ref().sync();
    for (std::size_t index = trips.size(); index-- > 0;) {
      trips[index].wait_backwards();
      CHECK(trips[index].has_arrived());
    }
    expect_no_findings(test.simulator);
  });
}

TEST_CASE("programs of random copies in several threads are right under each hazard") {
  for_each_hazard([](const char* hazard, const char* mode, std::uint64_t seed) {
    CopyTest test(with(hazard, mode, seed), few_slots(hazard));
    const CopyProgram::Streams streams = CopyProgram::make_streams(test);
    std::vector<std::unique_ptr<CopyProgram>> programs;
    for (std::size_t index = 0; index < 2; ++index)
      programs.push_back(std::make_unique<CopyProgram>(test, streams, 20'000, 10 * seed + index));
    const auto run = [](CopyProgram& program) { run_to_the_end(program, 40); };
    std::thread second(run, std::ref(*programs[1]));
    run(*programs[0]);
    second.join();
    test.runtime->completions().finish();
    for (const auto& program : programs) program->check_ends();
    expect_no_findings(test.simulator);
  });
}

// docs/staging.md, "Host functions in front of a copy".
TEST_CASE("a gate behind a host function blocks its channel, and a pinned copy does not" *
          needs_gates()) {
  if (std::getenv("BERTH_TEST_HARDWARE") != nullptr) return;  // needs connections of its own
  struct Case {
    const char* hardware;
    Kind source;
    bool blocks;
  };
  for (const Case& each :
       {Case{"connections=1", Kind::pageable, true}, Case{"connections=1", Kind::pinned, false},
        Case{"connections=32", Kind::pageable, false}}) {
    CAPTURE(std::string(each.hardware));
    CAPTURE(name_of(each.source));
    CopyTest test(sim::Config::parse(fmt::format("stall_ms=50,{}", each.hardware)),
                  few_slots(each.hardware));
    const Stream busy = test.stream();
    const Stream other = test.stream();
    Buffer source(test, each.source, 5 * kSlot);
    Buffer target(test, Kind::device, 5 * kSlot);
    Buffer flag(test, Kind::device, 1);
    const Bytes content = pattern(5 * kSlot, 1);
    source.write(content);
    std::atomic<bool> may_return = false;
    const auto wait = [](void* data) {
      while (!*static_cast<std::atomic<bool>*>(data)) std::this_thread::yield();
    };
    {
      const DeviceGuard guard(test.runtime->devices(), Device::cuda(0));
      REQUIRE(sim::berth_sim_cuLaunchHostFunc(busy.ref().native(), wait, &may_return) ==
              CUDA_SUCCESS);
    }
    const Transfer transfer = test.copier.start(target.data(), source.data(), content.size(), busy);
    test.copier.fill_async(flag.data(), 1, 1, other);
    other.ref().sync();  // ends with the finding, if the channel is blocked
    CHECK_FALSE(transfer.is_done());
    const std::vector<std::string> findings = test.simulator.take_findings();
    CHECK(findings.size() == (each.blocks ? 1 : 0));
    for (const std::string& finding : findings) CHECK(finding.starts_with("shared channel: "));
    may_return = true;
    transfer.wait();
    CHECK((target.read() == content));
  }
}

}  // namespace copy_hazards_test
