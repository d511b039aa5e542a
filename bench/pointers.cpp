// SPDX-License-Identifier: Apache-2.0
// What do lookups and uses of a block cost? Nanoseconds, one thread.
//   find_interior  finding whose memory a pointer into a block is. Rows: so many blocks live in the
//                  device's own pool, and as many in a private one
//   pair_recorded  an allocation, record_stream() for another stream and the free; the other stream
//                  is idle. Rows: bytes
#include <memory>
#include <random>
#include <vector>

#include "berth/bytes.hpp"
#include "berth/memory_pool.hpp"

#include "peers/allocators.hpp"
#include "support/benchmarks.hpp"

namespace berth::bench {
namespace {

class FindInterior {
 public:
  static constexpr std::size_t kBytes = 4_KiB;
  static constexpr std::size_t kPointers = 1024;

  FindInterior(Session& session, std::size_t blocks)
      : memory_(session.context(), session.runtime().events(session.device()), {}),
        pool_(memory_.create_pool({.name = "private"})) {
    for (std::size_t count = 0; count < blocks; ++count) {
      blocks_.push_back(memory_.allocate(kBytes, session.stream()));
      blocks_.push_back(pool_.allocate(kBytes, session.stream()));
    }
    std::mt19937_64 random(1);
    for (std::size_t count = 0; count < kPointers; ++count) {
      const Allocation& block = blocks_[random() % blocks * 2];
      pointers_.push_back(static_cast<const std::byte*>(block.data()) + 1 +
                          random() % (kBytes - 1));
    }
  }

  void step() { found_ += find(memory_, pointers_[position_++ % kPointers]) ? 1 : 0; }
  /// Whether every pointer was found, which also keeps the compiler from removing a search.
  [[nodiscard]] bool found_all() const { return found_ == position_; }

 private:
  /// The block if the allocator reports it, otherwise the owner of the memory.
  template <class Memory>
  static bool find(const Memory& memory, const void* pointer) {
    if constexpr (requires { memory.find_block(pointer); })
      return bool(memory.find_block(pointer));
    else
      return memory.owns(pointer);
  }

  DeviceAllocator memory_;
  MemoryPool pool_;
  std::vector<Allocation> blocks_;
  std::vector<const void*> pointers_;
  std::size_t position_ = 0;
  std::size_t found_ = 0;
};

void add_find_interior(Session& session, std::size_t blocks) {
  add(session, "find_interior", BerthAllocator::kName, std::to_string(blocks),
      [&session, blocks](benchmark::State& state) {
        FindInterior workload(session, blocks);
        time_steps(state, workload);
        if (!workload.found_all()) state.SkipWithError("a pointer was not found");
      });
}

class RecordedPair {
 public:
  RecordedPair(Session& session, std::size_t bytes)
      : allocator_(session), bytes_(bytes), streams_(session.streams(2)) {
    step();
  }
  void step() {
    void* const data = allocator_.allocate(bytes_, streams_[0]);
    allocator_.record_stream(data, streams_[1]);
    allocator_.deallocate(data, bytes_, streams_[0]);
  }

 private:
  BerthAllocator allocator_;
  std::size_t bytes_;
  std::vector<StreamRef> streams_;
};

}  // namespace

void add_benchmarks(Session& session) {
  for (const std::size_t blocks : {10, 100'000}) add_find_interior(session, blocks);
  for (const std::size_t bytes : {64_KiB, 8_MiB}) {
    add(session, "pair_recorded", BerthAllocator::kName, std::to_string(bytes),
        [&session, bytes](benchmark::State& state) {
          RecordedPair pair(session, bytes);
          time_steps(state, pair);
        });
  }
}

}  // namespace berth::bench
