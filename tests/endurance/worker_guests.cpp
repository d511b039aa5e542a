// SPDX-License-Identifier: Apache-2.0
// Streams and pools that come, allocate and go. A framework's streams are not berth's, which is not
// told when they end; a pool is closed while its memory may still be worked on.
#include <optional>
#include <utility>
#include <vector>

#include "berth/error.hpp"

#include "device/device_context.hpp"
#include "endurance/failure.hpp"
#include "endurance/worker.hpp"

namespace berth::endurance {
namespace {

constexpr std::size_t kBlocksMax = 3;

}  // namespace

/// Its last work may run on. What it leaves live is this thread's, to be freed some time.
void Worker::host_stream() {
  ++tally_.guests;
  Stream made(*machine_.context, StreamOptions{});
  const StreamRef guest = made.ref();
  made.release();
  const std::size_t count = 1 + random_.below(kBlocksMax);
  std::vector<LiveBlock> blocks;
  try {
    while (blocks.size() < count) {
      const std::size_t bytes = usual_bytes_[random_.below(usual_bytes_.size())];
      void* const data = memory_.allocate_raw(bytes, guest);
      LiveBlock block{reinterpret_cast<std::uintptr_t>(data), bytes, nullptr, 0};
      require(machine_.watch.claims().claim(block.address, rounded(bytes)),
              "a foreign stream's block has bytes of a live one, or none behind it");
      ++tally_.allocations;
      sums_.add(block, mode_.allocator_granule_bytes());
      peaks_.raise_to(sums_);
      if (works()) machine_.use(guest, block.address, bytes, true);
      blocks.push_back(block);
    }
  } catch (const OutOfMemory&) {
    ++tally_.refusals;
  }
  for (const LiveBlock& block : blocks) {
    if (random_.one_in(2)) {
      free_block(block);
    } else {
      live_.push_back(block);
    }
  }
  leave_stream(guest);
}

/// Sometimes as a framework does that knows of berth, most often without a word.
void Worker::leave_stream(StreamRef stream) {
  if (random_.one_in(4)) memory_.retire_stream(stream);
  const ContextScope scope(*machine_.context);
  machine_.driver->stream_destroy(stream.native());
}

void Worker::host_pool() {
  ++tally_.guests;
  std::optional<Stream> stream(std::in_place, *machine_.context, StreamOptions{});
  std::optional<MemoryPool> pool = memory_.create_pool({.name = "guest"});
  for (std::size_t count = 1 + random_.below(kBlocksMax); count > 0; --count) {
    const std::size_t bytes = usual_bytes_[random_.below(usual_bytes_.size())];
    Result<Allocation> block = pool->try_allocate(bytes, *stream);
    if (!block) continue;  // what is short may be another pool's
    if (works())
      machine_.use(*stream, reinterpret_cast<std::uintptr_t>(block.value().data()), bytes, true);
  }
  // In either order.
  if (random_.one_in(2)) {
    stream.reset();
    pool.reset();
  } else {
    pool.reset();
    stream.reset();
  }
}

}  // namespace berth::endurance
