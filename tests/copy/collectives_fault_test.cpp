// SPDX-License-Identifier: Apache-2.0
// Each driver call of a collective copy fails once: the caller gets a typed error, nothing more is
// written, no stream waits forever, and the next call succeeds.
#include <memory>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "copy/collectives_fixture.hpp"
#include "support/errors.hpp"
#include "support/thinned.hpp"

namespace collectives_fault_test {

using namespace berth;
using namespace berth::test;

namespace {

/// Two pieces of a broadcast.
constexpr std::size_t kBytes = 2 * CollectiveTest::kPiece + 5;

enum class Case {
  scatter,
  gather,
  broadcast_from_device,
  broadcast_from_host,
  scatter_from_pageable,
  gather_to_pageable,
  broadcast_from_pageable,
};
constexpr Case kEach[] = {
    Case::scatter,
    Case::gather,
    Case::broadcast_from_device,
    Case::broadcast_from_host,
    Case::scatter_from_pageable,
    Case::gather_to_pageable,
    Case::broadcast_from_pageable,
};

bool is_broadcast(Case kind) {
  return kind == Case::broadcast_from_device || kind == Case::broadcast_from_host ||
         kind == Case::broadcast_from_pageable;
}
bool is_gather(Case kind) {
  return kind == Case::gather || kind == Case::gather_to_pageable;
}
bool is_pageable(Case kind) {
  return kind >= Case::scatter_from_pageable;
}

Place place_of(Case kind) {
  if (is_pageable(kind)) return Place::pageable();
  return kind == Case::broadcast_from_host ? Place::pinned() : Place::on(0);
}

/// One collective copy between what it needs.
struct World : CollectiveTest {
  World(Case asked, const sim::Config& config)
      : CollectiveTest(config),
        kind(asked),
        whole(*this, place_of(asked), is_broadcast(asked) ? kBytes : 3 * kBytes, on(0)),
        shards(memory_at(*this, {Place::on(1), Place::on(2), Place::on(3)},
                         {kBytes, kBytes, kBytes})) {
    errors_expected = true;
  }

  Transfer start(const TransferOptions& options = {}) {
    const std::vector<Shard> parts = shards_of(shards);
    if (is_gather(kind))
      return collectives.gather(whole.data(), whole.bytes(), on(0), parts, options);
    if (is_broadcast(kind))
      return collectives.broadcast(whole.data(), whole.bytes(), on(0), parts, options);
    return collectives.scatter(whole.data(), whole.bytes(), on(0), parts, options);
  }
  void write_sources() {
    if (is_gather(kind)) {
      for (std::size_t part = 0; part < 3; ++part) shards[part].write(pattern(kBytes, part));
    } else {
      whole.write(pattern(whole.bytes(), 0));
    }
  }
  /// What arrived is what was sent.
  void check_targets() const {
    for (std::size_t part = 0; part < 3; ++part) {
      const Bytes there = shards[part].read();
      if (is_gather(kind))
        CHECK((part_of(whole.read(), part * kBytes, kBytes) == there));
      else
        CHECK((there == part_of(whole.read(), is_broadcast(kind) ? 0 : part * kBytes, kBytes)));
    }
  }
  [[nodiscard]] std::vector<Bytes> content() const {
    std::vector<Bytes> all{whole.read()};
    for (const Memory& shard : shards) all.push_back(shard.read());
    return all;
  }

  Case kind;
  Memory whole;
  std::vector<Memory> shards;
};

/// Driver calls of the calling thread alone: how many there are must not depend on the copier's
/// threads.
std::vector<const char*> calls_of(Case kind) {
  if (is_pageable(kind)) return {"cuStreamWaitValue32", "cuMemcpyAsync", "cuStreamWaitEvent"};
  return {"cuMemcpyAsync", "cuMemcpyPeerAsync",     "cuEventRecord",      "cuStreamWaitEvent",
          "cuEventCreate", "cuCtxEnablePeerAccess", "cuStreamIsCapturing"};
}

}  // namespace

TEST_CASE("a collective copy survives each driver call that fails once") {
  std::size_t failures = 0;
  Thinned thinned(5);
  for (const auto progress : {sim::Progress::manual, sim::Progress::eager}) {
    for (const Case kind : kEach) {
      for (const char* const call : calls_of(kind)) {
        const sim::Config config = CollectiveTest::with(progress);
        std::uint64_t before = 0;
        std::uint64_t after = 0;
        {
          World world(kind, config);
          world.write_sources();
          before = world.simulator.calls(call);
          world.start();
          after = world.simulator.calls(call);
          world.sync_all();
        }
        for (std::uint64_t nth = before + 1; nth <= after; ++nth) {
          if (thinned.skips()) continue;
          CAPTURE(int(progress));
          CAPTURE(int(kind));
          CAPTURE(call);
          CAPTURE(nth);
          sim::Config faulty = config;
          faulty.faults = sim::FaultPlan::parse(std::string(call) + "@" + std::to_string(nth) +
                                                "=launch_failed");
          World world(kind, faulty);
          world.write_sources();
          world.log.submit(world.on(2), "earlier");
          const auto kept = std::make_shared<int>();
          try {
            Transfer started;
            try {
              started = world.start({.keep_alive = kept});
            } catch (...) {
              CHECK(kept.use_count() == 1);
              throw;
            }
            started.wait();  // of what is only tried, a failure changes nothing
            world.check_targets();
          } catch (const DriverError& error) {
            ++failures;
            CHECK(contains(error.what(), call));
          }
          const std::vector<Bytes> content = world.content();
          world.simulator.run_all();
          CHECK((world.content() == content));
          for (int device = 0; device < 4; ++device) CHECK(world.on(device).is_done());
          world.write_sources();
          world.start().wait();
          world.check_targets();
          world.sync_all();
        }
      }
    }
  }
  MESSAGE("calls that failed it: ", failures);
  CHECK(failures > thinned.part_of(150));
}

TEST_CASE("a failed device fails a broadcast without a hang") {
  for (const Case kind : {Case::broadcast_from_device, Case::broadcast_from_host}) {
    for (const int failing : {1, 2, 3}) {
      CAPTURE(int(kind));
      CAPTURE(failing);
      World world(kind, CollectiveTest::with(sim::Progress::manual));
      world.write_sources();
      const sim::MemoryUse nowhere{1, 1, true};
      REQUIRE(world.simulator.launch(world.on(failing).native(), 1, {nowhere}));
      const Transfer transfer = world.start();
      message_of<DriverError>([&] { transfer.wait(); });
      CHECK(transfer.is_done());
      CHECK(transfer.failure() != nullptr);
    }
  }
}

}  // namespace collectives_fault_test
