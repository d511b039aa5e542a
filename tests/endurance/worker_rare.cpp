// SPDX-License-Identifier: Apache-2.0
// What a program does now and then.
#include <thread>

#include "berth/error.hpp"

#include "endurance/failure.hpp"
#include "endurance/worker.hpp"

namespace berth::endurance {
namespace {

template <class Call>
void require_refusal(const Call& call, const char* what) {
  try {
    call();
  } catch (const InvalidArgument&) {
    return;
  }
  fail(what);
}

}  // namespace

void Worker::do_rare(std::size_t choice) {
  switch (choice) {
    case 0:
    case 1:
      return replace_stream();
    case 2:
      return mode_.limited ? change_limit() : trim();
    case 3:
      return trim();
    case 4:
      return refuse_strangers();
    case 5:
      return free_on_passing_thread();
    case 6:
      return reset_peaks();
    case 7:
    case 8:
    case 9:
      return own_place().stream->ref().sync();
    case 10:
    case 11:
    case 12:
    case 13:
      return check_counters();
    case 14:
    case 15:
      return mode_.has_guests ? host_stream() : use_elsewhere();
    case 16:
      return mode_.has_guests ? host_pool() : use_elsewhere();
    default:
      return use_elsewhere();
  }
}

void Worker::use_elsewhere() {
  if (live_.empty()) return;
  LiveBlock& block = live_[random_.below(live_.size())];
  if (!block.has_stream()) return;
  const StreamRef user = some_place().stream->ref();
  if (works()) {
    user.wait(machine_.record(block.place->stream->ref()));
    machine_.use(user, block.address, block.bytes, false);
  }
  record_elsewhere(block, user);
}

void Worker::replace_stream() {
  machine_.replace(own_place());
}

void Worker::trim() {
  const std::size_t most = random_.one_in(4) ? 0 : random_.below(mode_.device_bytes());
  memory_.trim(most);
}

void Worker::change_limit() {
  limit_.reset();
  if (random_.below(3) != 0)
    limit_ = mode_.device_bytes() / 2 + random_.below(mode_.device_bytes() / 2);
  memory_.set_limits({.bytes_reserved_max = limit_});
  // What is reserved beyond it stays otherwise, and serves requests beyond it.
  if (limit_) memory_.trim(*limit_);
}

void Worker::refuse_strangers() {
  int on_stack = 0;
  require_refusal([&] { memory_.deallocate(&on_stack); }, "a stranger was freed");
  if (live_.empty()) return;
  const LiveBlock block = take_some();
  if (block.bytes > 1) {
    void* const inside =
        reinterpret_cast<void*>(block.address + 1 + random_.below(block.bytes - 1));
    require_refusal([&] { memory_.deallocate(inside); }, "an address inside a block was freed");
  }
  free_block(block);
  // Another thread may have it by now.
  if (is_alone())
    require_refusal([&] { memory_.deallocate(block.data()); }, "a block was freed twice");
}

// A thread that has never seen the allocator, and that leaves at once.
void Worker::free_on_passing_thread() {
  check_counters();  // what this thread has done is settled before the other one's, as it happened
  std::vector<LiveBlock> blocks;
  while (!live_.empty() && blocks.size() < 4) {
    blocks.push_back(take_some());
    leave(blocks.back());
  }
  std::thread([&] {
    for (const LiveBlock& block : blocks) memory_.deallocate(block.data());
  }).join();
}

bool Worker::relieve(std::size_t) {
  if (live_.empty()) return false;
  ++tally_.reliefs;
  if (random_.one_in(2)) {
    free_on_passing_thread();
  } else {
    for (int count = 0; count < 4 && !live_.empty(); ++count) free_block(take_some());
  }
  return true;
}

void Worker::reset_peaks() {
  memory_.reset_peaks();
  peaks_ = sums_;
}

// Other threads are under way where there are some: the whole is compared when they are not.
void Worker::check_counters() {
  const MemoryCounters counters = memory_.counters();
  require(counters.bytes_reserved.current <= mode_.device_bytes(),
          "more is reserved than the device has");
  if (!is_alone()) return;
  require(counters.bytes_requested.current == sums_.bytes_requested, "bytes_requested is wrong");
  require(counters.bytes_allocated.current == sums_.bytes_allocated, "bytes_allocated is wrong");
  require(counters.blocks_allocated.current == sums_.blocks, "blocks_allocated is wrong");
  require(counters.bytes_requested.peak == peaks_.bytes_requested,
          "the peak of bytes_requested is wrong");
  require(counters.bytes_allocated.peak == peaks_.bytes_allocated,
          "the peak of bytes_allocated is wrong");
  require(counters.allocations == tally_.allocations, "allocations is wrong");
  require(counters.frees == tally_.frees, "frees is wrong");
  require(counters.out_of_memory == tally_.refusals, "out_of_memory is wrong");
}

// However fragmented memory is: a live block spoils at most one granule more than its bytes fill,
// and every other one can be had.
bool Worker::must_fit(std::size_t bytes) const {
  if (!mode_.virtual_memory || !is_alone()) return false;
  const std::size_t granule = mode_.allocator_granule_bytes();
  const std::size_t needed = sums_.granules_spoiled + bytes / granule + 2;
  return needed * granule <= limit_.value_or(mode_.device_bytes());
}

}  // namespace berth::endurance
