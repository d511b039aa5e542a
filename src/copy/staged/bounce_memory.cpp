// SPDX-License-Identifier: Apache-2.0
#include "copy/staged/bounce_memory.hpp"

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "berth/event_pool.hpp"

#include "base/arithmetic.hpp"
#include "base/check.hpp"
#include "copy/staged/progress_word.hpp"
#include "device/device_context.hpp"
#include "device/observe_devices.hpp"
#include "stream/capture.hpp"
#include "stream/unchecked.hpp"

namespace berth {

/// Belongs to the copy that took it; only the thread of that copy accesses it.
struct BounceMemory::Block {
  struct Use {
    const DeviceContext* context = nullptr;
    CUstream_st* stream = nullptr;
    bool operator==(const Use&) const = default;
  };
  struct Half {
    Use user{};                      ///< the stream of its first copy
    std::uint64_t number = 0;        ///< of that stream; differs if the handle is reused
    bool is_shared = false;          ///< other streams may have used it, too
    std::optional<EventLease> mark;  ///< behind its copies, once it is used up
  };

  [[nodiscard]] bool has_room(std::size_t bytes) const {
    return memory != nullptr && bytes <= begin() + kHalfBytes - used;
  }
  [[nodiscard]] std::size_t begin() const { return half * kHalfBytes; }
  [[nodiscard]] Half& current() { return halves[half]; }
  [[nodiscard]] Half& other() { return halves[1 - half]; }
  void begin_half(std::size_t which) {
    half = which;
    used = begin();
    current() = {};
  }
  void add_user(StreamRef stream) {
    Half& now = current();
    if (used == begin()) now = {.user = use_of(stream), .number = number_of(stream), .mark = {}};
    now.is_shared |= now.user != use_of(stream);
  }
  [[nodiscard]] bool half_is_of(StreamRef stream) {
    const Half& now = current();
    return !now.is_shared && now.user == use_of(stream) && now.number == number_of(stream);
  }
  static Use use_of(StreamRef stream) { return {&stream.context(), stream.native()}; }
  static std::uint64_t number_of(StreamRef stream) {
    return stream.context().stream_number(stream.native());
  }

  StagingBlock memory;
  std::size_t half = 0;
  std::size_t used = 0;  ///< bytes from the start of the block
  std::array<Half, 2> halves{};
  /// The streams recorded on the memory, or the most recent of them. A stream may be recorded
  /// repeatedly.
  std::array<Use, 8> uses{};
  std::size_t use_count = 0;
  std::uint64_t retirements = 0;  ///< counted so far
  /// Watches of words that have not paid: the streams take longer, or the driver rejects words.
  struct Watches {
    unsigned missed = 0;   ///< in succession, up to kMissedMax
    unsigned to_skip = 0;  ///< copies that are not watched
  };
  Watches watches;
};

namespace {

/// The slot that a thread searches first, in order to find its last block.
std::size_t first_slot() {
  static std::atomic<std::size_t> threads = 0;
  thread_local const std::size_t slot = threads.fetch_add(1, std::memory_order_relaxed);
  return slot;
}

/// Several times what a copy of up to kPartBytesMax takes behind a short kernel.
constexpr std::chrono::microseconds kWatchTime{100};
/// After as many watches in vain, one copy of 64 is still watched.
constexpr unsigned kMissedMax = 6;

/// Does not invalidate captures of other threads. False if the mark cannot be queried.
bool has_completed(const EventLease& mark) {
  const Driver& driver = mark->context().driver();
  const RelaxedCapture relaxed(driver);
  return driver.try_event_query(mark->native()) == CUDA_SUCCESS;
}

}  // namespace

BounceMemory::BounceMemory(const DeviceRegistry& registry, PinnedAllocator& pinned,
                           EventPoolOf events_of)
    : registry_(registry), pinned_(pinned), events_of_(std::move(events_of)) {
  add_observer_of_all(registry_, retirements_);
}

BounceMemory::~BounceMemory() {
  remove_observer_of_all(registry_, retirements_);
  for (Slot& slot : slots_) delete slot.block.load(std::memory_order_acquire);
}

std::byte* BounceMemory::Part::begin() const {
  return block_->memory.get() + begin_;
}

std::byte* BounceMemory::Part::data() const {
  return begin() + word_bytes_;
}

bool BounceMemory::Part::completes_soon(StreamRef stream) const noexcept {
  BERTH_CHECK(word_bytes_ > 0);
  Block::Watches& watches = block_->watches;
  if (watches.to_skip > 0) {
    --watches.to_skip;
    return false;
  }
  const Driver& driver = stream.context().driver();
  auto* const memory = reinterpret_cast<std::uint32_t*>(begin());
  *memory = 0;
  const ProgressWord word(memory);
  if (word.try_submit(1, stream) == CUDA_SUCCESS && word.reaches(1, driver, kWatchTime)) {
    watches = {};
    return true;
  }
  watches.missed = std::min(watches.missed + 1, kMissedMax);
  watches.to_skip = (1U << watches.missed) - 1;
  return false;
}

void BounceMemory::Part::reuse(const Driver& driver) noexcept {
  BERTH_CHECK(block_ != nullptr && begin_ < block_->used);
  const std::size_t end = block_->used;
  block_->used = block_->current().is_shared ? begin_ : block_->begin();
  driver.sim_host_recycles(block_->memory.get() + block_->used, end - block_->used);
}

BounceMemory::Part BounceMemory::take(std::size_t data_bytes, CopyDirection direction,
                                      StreamRef stream) {
  BERTH_CHECK(data_bytes > 0 && data_bytes <= kPartBytesMax);
  Part part(*this, take_block());
  part.word_bytes_ = direction == CopyDirection::to_host ? kAlignment : 0;
  const std::size_t bytes = part.word_bytes_ + data_bytes;
  Block& block = *part.block_;
  note_retirements(block);
  if (!block.has_room(bytes) && !switch_half(block, stream) && !renew(block, stream)) return {};
  BERTH_CHECK(block.has_room(bytes));  // otherwise the copy would overwrite another block
  record(block, stream);
  block.add_user(stream);
  part.begin_ = block.used;
  block.used = std::min(align_up(block.used + bytes, kAlignment), block.begin() + kHalfBytes);
  return part;
}

BounceMemory::Block* BounceMemory::take_block() {
  const std::size_t first = first_slot();
  for (std::size_t offset = 0; offset < kSlots; ++offset) {
    std::atomic<Block*>& slot = slots_[(first + offset) % kSlots].block;
    if (slot.load(std::memory_order_relaxed) == nullptr) continue;
    if (Block* const block = slot.exchange(nullptr, std::memory_order_acquire)) return block;
  }
  return new Block;
}

void BounceMemory::put_back(Block* block) noexcept {
  const std::size_t first = first_slot();
  for (std::size_t offset = 0; offset < kSlots; ++offset) {
    std::atomic<Block*>& slot = slots_[(first + offset) % kSlots].block;
    Block* none = nullptr;
    if (slot.compare_exchange_strong(none, block, std::memory_order_release,
                                     std::memory_order_relaxed))
      return;
  }
  delete block;
}

bool BounceMemory::switch_half(Block& block, StreamRef stream) {
  if (block.memory == nullptr || !block.half_is_of(stream)) return false;
  const ContextScope scope(stream.context());
  EventLease mark = events_of_(stream.context()).acquire();
  record_unchecked(mark, stream);
  block.current().mark = std::move(mark);
  // Without a mark, bytes of pending copies would be overwritten.
  BERTH_CHECK(block.other().mark || block.other().user == Block::Use{});
  if (block.other().mark && !has_completed(*block.other().mark)) return false;
  block.begin_half(1 - block.half);
  return true;
}

bool BounceMemory::renew(Block& block, StreamRef stream) {
  block.memory.reset();
  block.halves = {};
  block.use_count = 0;
  const PinnedOptions options{.near = stream.device(), .may_wait = false};
  try {
    block.memory = allocate_staging(pinned_, 2 * kHalfBytes, options);
  } catch (const OutOfMemory&) {
    return false;
  }
  block.begin_half(0);
  return true;
}

void BounceMemory::note_retirements(Block& block) {
  const std::uint64_t retirements = retirements_.count.load();
  if (std::exchange(block.retirements, retirements) == retirements) return;
  block.use_count = 0;
  block.current().is_shared |= block.used > block.begin();
}

void BounceMemory::record(Block& block, StreamRef stream) {
  const Block::Use use = Block::use_of(stream);
  const std::size_t known = std::min(block.use_count, block.uses.size());
  if (std::find(block.uses.begin(), block.uses.begin() + known, use) != block.uses.begin() + known)
    return;
  pinned_.record_stream(block.memory.get(), stream);
  block.uses[block.use_count++ % block.uses.size()] = use;
}

}  // namespace berth
