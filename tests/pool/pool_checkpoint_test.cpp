// SPDX-License-Identifier: Apache-2.0
// Going back to the live blocks of an earlier moment in a pool for graphs.
#include <algorithm>
#include <map>
#include <vector>

#include "berth/bytes.hpp"

#include "memory/memory_fixture.hpp"
#include "model/random_program.hpp"
#include "support/errors.hpp"

namespace pool_checkpoint_test {

using namespace berth;
using namespace berth::test;

namespace {

const MemoryPoolOptions kForGraphs{.name = "graphs", .for_graphs = true};

struct CheckpointTest : MemoryTest {
  CheckpointTest() : MemoryTest(config()) {}
  static sim::Config config() {
    sim::Config config;
    config.memory = {1_GiB};
    return config;
  }

  void* allocate(std::size_t bytes) { return pool.allocate_raw(bytes, on); }
  [[nodiscard]] bool is_live(const void* data, std::size_t bytes) {
    const auto found = pool.find(data);
    return found && found->data == data && found->bytes == bytes;
  }

  Stream on = stream();
  MemoryPool pool = memory.create_pool(kForGraphs);
};

bool has(const std::vector<void*>& blocks, const void* data) {
  return std::ranges::find(blocks, data) != blocks.end();
}

/// The live blocks and their sizes.
using Blocks = std::map<void*, std::size_t>;

}  // namespace

TEST_CASE_FIXTURE(CheckpointTest, "the blocks of a checkpoint are live again, and no others") {
  void* const kept = allocate(3_MiB);
  void* const freed = allocate(5_MiB);
  void* const small = allocate(1000);
  const PoolCheckpoint checkpoint = pool.checkpoint();
  CHECK(checkpoint.size() == 3);
  pool.deallocate(freed);
  pool.deallocate(small);
  void* const later = allocate(2_MiB);
  void* const other = allocate(600);
  const std::uint64_t created = driver_calls(*runtime, "cuMemCreate");
  const std::size_t reserved = pool.counters().bytes_reserved.current;

  const RestoredBlocks restored = pool.restore(checkpoint);
  CHECK(restored.kept == std::vector<void*>{kept});
  CHECK(restored.freed.size() == 2);
  CHECK((has(restored.freed, later) && has(restored.freed, other)));
  CHECK(restored.allocated.size() == 2);
  CHECK((has(restored.allocated, freed) && has(restored.allocated, small)));
  CHECK(is_live(kept, 3_MiB));
  CHECK(is_live(freed, 5_MiB));
  CHECK(is_live(small, 1000));
  CHECK(pool.checkpoint().size() == 3);
  CHECK(driver_calls(*runtime, "cuMemCreate") == created);
  CHECK(pool.counters().bytes_reserved.current == reserved);
  CHECK(pool.counters().blocks_allocated.current == 3);
  CHECK(pool.counters().bytes_requested.current == 8_MiB + 1000);
  pool.validate();

  const RestoredBlocks nothing = pool.restore(checkpoint);
  CHECK((nothing.freed.empty() && nothing.allocated.empty()));
  CHECK(nothing.kept.size() == 3);
  for (void* const data : {kept, freed, small}) pool.deallocate(data);
  CHECK(pool.counters().blocks_allocated.current == 0);
  CHECK(pool.restore(checkpoint).allocated.size() == 3);  // from caches, too
  pool.validate();
}

TEST_CASE_FIXTURE(CheckpointTest, "a block in the place of another one ends, and that one begins") {
  void* const first = allocate(4_MiB);
  const PoolCheckpoint checkpoint = pool.checkpoint();
  pool.deallocate(first);
  void* const second = allocate(2_MiB);
  REQUIRE(second == first);
  const RestoredBlocks restored = pool.restore(checkpoint);
  CHECK(restored.freed == std::vector<void*>{first});
  CHECK(restored.allocated == std::vector<void*>{first});
  CHECK(is_live(first, 4_MiB));
  pool.deallocate(first);

  void* const exact = allocate(1000);
  const PoolCheckpoint small = pool.checkpoint();
  pool.deallocate(exact);
  REQUIRE(allocate(900) == exact);
  CHECK(pool.restore(small).kept.empty());
  CHECK(is_live(exact, 1000));
  pool.deallocate(exact);
}

TEST_CASE_FIXTURE(CheckpointTest, "joined memory is live again at the address of its window") {
  // Holes of 2 MiB between live blocks, so that 12 MiB are joined of them.
  std::vector<void*> blocks;
  for (int i = 0; i < 16; ++i) blocks.push_back(allocate(2_MiB));
  for (std::size_t i = 0; i < 16; i += 2) pool.deallocate(blocks[i]);
  void* const joined = allocate(12_MiB);
  REQUIRE(pool.counters().allocations_stitched == 1);
  const PoolCheckpoint checkpoint = pool.checkpoint();
  pool.deallocate(joined);
  std::vector<void*> others;
  for (int i = 0; i < 6; ++i) others.push_back(allocate(2_MiB));
  const std::uint64_t maps = driver_calls(*runtime, "cuMemMap");
  const RestoredBlocks restored = pool.restore(checkpoint);
  CHECK(restored.allocated == std::vector<void*>{joined});
  CHECK(restored.freed.size() == others.size());
  CHECK(is_live(joined, 12_MiB));
  CHECK(driver_calls(*runtime, "cuMemMap") == maps);
  pool.validate();
  pool.deallocate(joined);
  for (std::size_t i = 1; i < 16; i += 2) pool.deallocate(blocks[i]);
  pool.validate();
}

TEST_CASE_FIXTURE(CheckpointTest, "what cannot be restored is refused, and nothing is changed") {
  MemoryPool plain = memory.create_pool({.name = "plain"});
  CHECK(contains(message_of<InvalidArgument>([&] { return plain.checkpoint(); }),
                 "cuda:0/plain has no checkpoints; accepted: a pool created with"));
  MemoryPool other = memory.create_pool({.name = "other", .for_graphs = true});
  const PoolCheckpoint of_other = other.checkpoint();
  CHECK(contains(message_of<InvalidArgument>([&] { return pool.restore(of_other); }),
                 "the checkpoint is of another pool"));

  void* const data = allocate(4_MiB);
  const PoolCheckpoint checkpoint = pool.checkpoint();
  pool.deallocate(data);
  void* const used = allocate(4_MiB);
  REQUIRE(used == data);
  const Stream second = stream();
  log.submit(second, "use");
  pool.record_stream(used, second);
  const PoolCheckpoint empty = other.checkpoint();
  CHECK(pool.restore(checkpoint).kept.size() == 1);  // the same block for all that is known
  pool.deallocate(used);
  CHECK(contains(message_of<InvalidArgument>([&] { return pool.restore(checkpoint); }),
                 "was in memory that is still used"));
  run_stream(second);
  second.ref().sync();
  void* const again = allocate(1_MiB);  // reclaims
  pool.record_stream(again, second);
  CHECK(contains(message_of<InvalidArgument>([&] { return pool.restore(checkpoint); }),
                 "was recorded for another stream or a graph"));
  CHECK(is_live(again, 1_MiB));
  pool.deallocate(again);

  Stream short_lived = stream();
  void* const of_short_lived = pool.allocate_raw(8_MiB, short_lived);
  const PoolCheckpoint later = pool.checkpoint();
  pool.deallocate(of_short_lived);
  short_lived = {};
  CHECK(contains(message_of<InvalidArgument>([&] { return pool.restore(later); }),
                 "is ordered on a stream that has been destroyed"));
  CHECK(pool.checkpoint().size() == 0);
  pool.validate();
}

namespace {

class Program final : public RandomProgram {
 public:
  explicit Program(std::uint64_t seed) : RandomProgram(seed) {}

  void step() {
    static constexpr Operation<Program> kOperations[] = {
        {10, "allocate or free", &Program::allocate_or_free},
        {8, "free", &Program::free_block},
        {1, "make a checkpoint", &Program::make_checkpoint},
        {1, "restore", &Program::restore},
    };
    do_one_of(kOperations);
  }
  void finish() {
    CHECK(test_.pool.counters().blocks_allocated.current == live_.size());
    CHECK(test_.pool.counters().allocations_stitched > 0);
    for (const auto& [data, bytes] : live_) {
      CHECK(test_.is_live(data, bytes));
      test_.pool.deallocate(data);
    }
  }

 private:
  void allocate_or_free() {
    if (live_.size() == 60) return free_block();
    const std::size_t unit = 1 + random_.below(1_MiB);
    const std::size_t bytes = unit * (random_.one_in(3) ? 1 + random_.below(12) : 1);
    live_[test_.pool.allocate_raw(bytes, streams_[random_.below(3)])] = bytes;
  }
  void free_block() {
    if (live_.empty()) return;
    const auto block = std::next(live_.begin(), std::ptrdiff_t(random_.below(live_.size())));
    test_.pool.deallocate(block->first);
    live_.erase(block);
  }
  void make_checkpoint() { checkpoints_.emplace_back(test_.pool.checkpoint(), live_); }
  void restore() {
    if (checkpoints_.empty()) return;
    const auto& [checkpoint, then] = checkpoints_[random_.below(checkpoints_.size())];
    const RestoredBlocks restored = test_.pool.restore(checkpoint);
    for (void* const data : restored.freed) CHECK(live_.erase(data) == 1);
    for (void* const data : restored.allocated) live_[data] = then.at(data);
    CHECK(live_ == then);
    test_.pool.validate();
  }

  CheckpointTest test_;
  const Stream second_ = test_.stream();
  const Stream third_ = test_.stream();
  const StreamRef streams_[3] = {test_.on, second_, third_};
  Blocks live_;
  std::vector<std::pair<PoolCheckpoint, Blocks>> checkpoints_;
};

}  // namespace

TEST_CASE("random programs go back to any of their checkpoints") {
  Program program(7);
  run_to_the_end(program, 4000);
}

}  // namespace pool_checkpoint_test
