// SPDX-License-Identifier: Apache-2.0
// Streams that berth does not own, and that may be destroyed without a word.
#include "memory/memory_fixture.hpp"
#include "sim/functions.hpp"
#include "support/errors.hpp"

namespace foreign_streams_test {

using namespace berth;
using namespace berth::test;

namespace {

struct ForeignTest : MemoryTest {
  ForeignTest() : MemoryTest(small_device(64_MiB)) {}
  StreamRef foreign() {
    Stream made = stream();
    const StreamRef ref = made.ref();
    made.release();
    return ref;
  }
  void destroy(StreamRef ref) {
    const ContextScope scope(ref.context());
    REQUIRE(sim::berth_sim_cuStreamDestroy(ref.native()) == CUDA_SUCCESS);
  }
};

}  // namespace

TEST_CASE_FIXTURE(ForeignTest, "a stream that was destroyed without a word stops nobody") {
  const StreamRef gone = foreign();
  const Stream own = stream();
  { const Allocation cached = memory.allocate(40_MiB, gone); }
  destroy(gone);
  const Allocation block = memory.allocate(8_MiB, own);  // a miss
  CHECK(block.data() != nullptr);
  CHECK(memory.allocate(48_MiB, own).data() != nullptr);  // what it left, once the device is idle
  memory.trim();
  memory.retire_stream(own);
  memory.validate();
}

TEST_CASE_FIXTURE(ForeignTest, "a use by a stream that was destroyed does not last for ever") {
  const StreamRef gone = foreign();
  const Stream own = stream();
  Allocation block = memory.allocate(40_MiB, own);
  block.record_stream(gone);
  destroy(gone);
  block.reset();
  CHECK(memory.allocate(48_MiB, own).data() != nullptr);
  memory.validate();
}

TEST_CASE_FIXTURE(ForeignTest, "what a stream freed passes on behind the next call that names it") {
  const StreamRef named = foreign();
  const Stream own = stream();
  { const Allocation cached = memory.allocate(40_MiB, named); }
  const Allocation first = memory.allocate(2_MiB, own);
  { const Allocation again = memory.allocate(50_MiB, named); }  // a miss, which marks
  CHECK(memory.allocate(48_MiB, own).data() != nullptr);
  memory.retire_stream(named);
  destroy(named);
}

}  // namespace foreign_streams_test
