// SPDX-License-Identifier: Apache-2.0
#include "endurance/worker.hpp"

#include <algorithm>
#include <mutex>

#include "berth/error.hpp"

#include "endurance/failure.hpp"

namespace berth::endurance {
namespace {

/// Of so many operations one is rare.
constexpr std::size_t kChances = 4096;
constexpr std::size_t kRare = 64;
/// On their way to one thread.
constexpr std::size_t kParcelsMax = 8;

}  // namespace

Worker::Worker(Shared& shared, unsigned index, std::uint64_t seed)
    : shared_(shared),
      mode_(shared.mode),
      machine_(shared.machine),
      memory_(*shared.machine.memory),
      index_(index),
      random_(seed * 1000 + index) {
  for (StreamPlace& place : places_) machine_.replace(place);
  start_phase();
}

void Worker::run(std::uint64_t operations) {
  running_worker = this;
  while (operations > 0) {
    std::unique_lock turn(shared_.turn, std::defer_lock);
    if (mode_.takes_turns) turn.lock();
    const std::uint64_t count = mode_.takes_turns
                                    ? std::min<std::uint64_t>(operations, 1 + random_.below(256))
                                    : operations;
    for (std::uint64_t operation = 0; operation < count; ++operation) step();
    operations -= count;
  }
  running_worker = nullptr;
}

void Worker::step() {
  operations_begun = ++tally_.operations;
  const std::size_t choice = random_.below(kChances);
  if (choice < kRare && (!mode_.calm || random_.one_in(32))) return do_rare(choice);
  if (shared_.inboxes[index_].waiting() > 0) receive();
  const bool is_full = mode_.calm && sums_.bytes_allocated > mode_.bytes_calm();
  if (is_full) {
    filling_ = false;
    bytes_low_ = mode_.bytes_calm() / 2;
  }
  // A choice has more than enough bits for this one as well.
  if (!is_full && choice % 100 < (filling_ ? 58U : 42U)) {
    allocate();
  } else {
    free_some();
  }
}

void Worker::start_phase() {
  filling_ = true;
  request_bytes_max_ = mode_.request_bytes_max() >> (mode_.calm ? 0 : random_.below(5));
  usual_bytes_.resize(mode_.sizes);
  for (std::size_t& bytes : usual_bytes_) bytes = random_.size_up_to(request_bytes_max_);
}

StreamPlace& Worker::some_place() {
  const std::size_t choice = random_.below(places_.size() + shared_.places.size());
  return choice < places_.size() ? places_[choice] : shared_.places[choice - places_.size()];
}

bool Worker::works() {
  if (mode_.checked) return true;
  return mode_.progress == sim::Progress::random && random_.one_in(4);
}

void Worker::allocate() {
  const bool unusual = !mode_.calm && random_.one_in(12);
  const std::size_t bytes = unusual ? random_.size_up_to(request_bytes_max_)
                                    : usual_bytes_[random_.below(usual_bytes_.size())];
  StreamPlace& place = some_place();
  try {
    accept(memory_.allocate_raw(bytes, place.stream->ref()), bytes, place);
  } catch (const OutOfMemory&) {
    require(!must_fit(bytes), "a request was refused for which there must be room");
    ++tally_.refusals;
    filling_ = false;
    // Half of the time all goes, so that granules become free from end to end.
    bytes_low_ = random_.one_in(2) ? 0 : random_.below(sums_.bytes_allocated / 4 * 3 + 1);
  }
}

void Worker::accept(void* data, std::size_t bytes, StreamPlace& place) {
  LiveBlock block{reinterpret_cast<std::uintptr_t>(data), bytes, &place, place.generation};
  require(data != nullptr && block.address % kBlockAlignment == 0, "a block that is not aligned");
  require(machine_.watch.claims().claim(block.address, rounded(bytes)),
          "a new block has bytes of a live one, or none behind it");
  ++tally_.allocations;
  sums_.add(block, mode_.allocator_granule_bytes());
  peaks_.raise_to(sums_);
  if (works()) machine_.use(place.stream->ref(), block.address, bytes, true);
  // Not always: each call of the driver lets other work run, which shall be late as well.
  if (mode_.checked && random_.one_in(8)) {
    block.tag = random_.byte();
    machine_.write_tag(place.stream->ref(), block.address, bytes, *block.tag);
  }
  live_.push_back(block);
}

LiveBlock Worker::take_some() {
  std::swap(live_[random_.below(live_.size())], live_.back());
  const LiveBlock block = live_.back();
  live_.pop_back();
  return block;
}

void Worker::free_some() {
  if (!filling_ && sums_.bytes_allocated <= bytes_low_) {
    if (live_.empty() && random_.one_in(16)) trim();
    if (!shared_.emptying) start_phase();
  }
  if (live_.empty()) return;
  const LiveBlock block = take_some();
  if (!is_alone() && !block.used_elsewhere && hands_over()) return hand_over(block);
  free_block(block);
}

void Worker::free_block(const LiveBlock& block) {
  leave(block);
  memory_.deallocate(block.data());
}

void Worker::leave(const LiveBlock& block) {
  if (block.has_stream() && works())
    machine_.use(block.place->stream->ref(), block.address, block.bytes, !block.used_elsewhere);
  require(machine_.watch.claims().give_up(block.address, rounded(block.bytes)),
          "a live block has lost bytes");
  sums_.remove(block, mode_.allocator_granule_bytes());
  ++tally_.frees;
}

// Some threads allocate for the others.
bool Worker::hands_over() {
  const bool gives = index_ % 2 == 0;
  return mode_.calm ? gives : random_.one_in(gives ? 3 : 24);
}

void Worker::hand_over(const LiveBlock& block) {
  const std::size_t other = 1 + random_.below(mode_.threads - 1);
  Inbox& inbox = shared_.inboxes[(index_ + other) % mode_.threads];
  // A thread that gets no processor for a while must not end up with the whole device.
  if (inbox.waiting() >= kParcelsMax) return free_block(block);
  Parcel parcel{block, std::nullopt};
  if (mode_.checked && block.has_stream())
    parcel.last_work = machine_.record(block.place->stream->ref());
  // Another thread must not touch a stream that this one may replace.
  const auto& places = places_;
  if (std::ranges::any_of(places, [&](const auto& own) { return &own == block.place; }))
    parcel.block.place = nullptr;
  sums_.remove(block, mode_.allocator_granule_bytes());
  tally_.bytes_across_threads += block.bytes;
  inbox.put(std::move(parcel));
}

void Worker::receive() {
  for (Parcel& parcel : shared_.inboxes[index_].take()) {
    LiveBlock block = parcel.block;
    if (mode_.checked ? parcel.last_work.has_value() : random_.one_in(4)) {
      const StreamRef user = own_place().stream->ref();
      if (parcel.last_work) user.wait(*parcel.last_work);
      if (works()) machine_.use(user, block.address, block.bytes, false);
      record_elsewhere(block, user);
    }
    sums_.add(block, mode_.allocator_granule_bytes());
    live_.push_back(block);
  }
}

void Worker::record_elsewhere(LiveBlock& block, StreamRef user) {
  if (random_.one_in(2)) {
    memory_.record_use(block.data(), user);
  } else {
    memory_.record_stream(block.data(), user);
  }
  block.used_elsewhere = true;
}

void Worker::empty() {
  filling_ = false;
  bytes_low_ = 0;
}

void Worker::free_all() {
  while (!live_.empty()) free_block(take_some());
}

void Worker::free_parcels() {
  receive();
  free_all();
}

}  // namespace berth::endurance
