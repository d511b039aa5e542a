// SPDX-License-Identifier: Apache-2.0
// Random copies and fills between buffers of every kind, against arrays that are copied at once.
// One stream a device; before a stream takes over it waits for the one that worked last, so that
// the program has one order, and the arrays follow it.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include <doctest/doctest.h>

#include "copy/copy_fixture.hpp"
#include "model/random.hpp"

using namespace berth;
using namespace berth::test;

namespace {

constexpr std::size_t kBufferBytes = 300'000;

constexpr StagingShortage kShortages[] = {StagingShortage::wait, StagingShortage::grow,
                                          StagingShortage::fall_back};

struct ModelBuffer {
  Kind kind;
  std::unique_ptr<Buffer> buffer;
  Bytes expected;
  /// Whether work that is under way reads or writes it; only kept for host memory.
  bool busy = false;
};

class Program {
 public:
  explicit Program(std::uint64_t seed)
      : random_(seed),
        test_(config(seed), {.staging_slot_bytes = 64_KiB,
                             .staging_slots = 3,
                             .on_staging_shortage = kShortages[seed % 3],
                             .direct_piece_bytes = 64_KiB}),
        streams_{test_.stream(0), test_.stream(1)} {
    for (const Kind kind : kKinds) {
      for (int copy = 0; copy < 2; ++copy) {
        buffers_.push_back({kind, std::make_unique<Buffer>(test_, kind, kBufferBytes),
                            pattern(kBufferBytes, random_.below(1000))});
        buffers_.back().buffer->write(buffers_.back().expected);
      }
    }
  }

  void step() {
    switch (random_.below(13)) {
      case 0:
        settle();
        break;
      case 1:
        fill();
        break;
      case 2:
        change_host_memory();
        break;
      case 3:
        wait_for_one();
        break;
      default:
        copy();
    }
  }

  /// Waits for everything and compares everything.
  void settle() {
    for (const Stream& stream : streams_) stream.ref().sync();
    for (const Transfer& transfer : transfers_) {
      transfer.wait();
      CHECK(transfer.bytes_done() == transfer.bytes());
    }
    transfers_.clear();
    for (ModelBuffer& model : buffers_) {
      CAPTURE(name_of(model.kind));
      CHECK((model.buffer->read() == model.expected));
      CHECK(model.buffer->guards_hold());
      model.busy = false;
    }
    CHECK(test_.copier.counters().bytes_copied == bytes_copied_);
  }

 private:
  static sim::Config config(std::uint64_t seed) {
    sim::Config config;
    config.devices = 2;
    config.progress = sim::Progress::random;
    config.seed = seed;
    config.peer = seed % 2 == 0;
    return config;
  }

  const Stream& take_over(int device) {
    if (device != last_device_) {
      streams_[device].ref().wait(test_.runtime->record(streams_[last_device_]));
      last_device_ = device;
    }
    return streams_[device];
  }

  void copy() {
    ModelBuffer& from = buffers_[random_.below(buffers_.size())];
    ModelBuffer& to = buffers_[random_.below(buffers_.size())];
    const std::size_t bytes = random_.size_up_to(kBufferBytes);
    std::size_t source = random_.below(kBufferBytes - bytes + 1);
    std::size_t target = random_.below(kBufferBytes - bytes + 1);
    if (&from == &to) {
      if (2 * bytes > kBufferBytes) return;
      source = random_.below(kBufferBytes - 2 * bytes + 1);
      target = source + bytes;
      if (random_.below(2) == 0) std::swap(source, target);
    }
    const bool host_to_host = is_host(from.kind) && is_host(to.kind);
    // What the call does at once on the host must not meet work that is under way.
    if ((host_to_host && (from.busy || to.busy)) || (from.kind == Kind::pageable && from.busy))
      settle();
    const int device = stream_device_of(from.kind, to.kind);
    const bool source_stays = random_.below(2) == 0;
    if (source_stays) {
      transfers_.push_back(test_.copier.start(to.buffer->data() + target,
                                              from.buffer->data() + source, bytes,
                                              take_over(device), {.priority = priority()}));
    } else {
      test_.copier.copy_async(to.buffer->data() + target, from.buffer->data() + source, bytes,
                              take_over(device));
    }
    std::copy_n(from.expected.begin() + std::ptrdiff_t(source), bytes,
                to.expected.begin() + std::ptrdiff_t(target));
    bytes_copied_ += bytes;
    if (host_to_host) return;
    if (from.kind != Kind::pageable || source_stays) from.busy = true;
    to.busy = true;
  }

  int priority() { return -static_cast<int>(random_.below(3)); }

  /// Whichever it is: a thread that waits does its share, and its stream's order stays.
  void wait_for_one() {
    if (transfers_.empty()) return;
    std::swap(transfers_[random_.below(transfers_.size())], transfers_.back());
    transfers_.back().wait();
    CHECK(transfers_.back().failure() == nullptr);
    transfers_.pop_back();
  }

  void fill() {
    ModelBuffer& model = buffers_[random_.below(buffers_.size())];
    if (is_host(model.kind)) return;
    const std::size_t bytes = random_.size_up_to(kBufferBytes);
    const std::size_t offset = random_.below(kBufferBytes - bytes + 1);
    const unsigned char value = random_.byte();
    test_.copier.fill_async(model.buffer->data() + offset, value, bytes,
                            take_over(device_of(model.kind)));
    std::fill_n(model.expected.begin() + std::ptrdiff_t(offset), bytes, value);
  }

  /// The host writes memory that nothing under way uses: pageable sources have been read by now.
  void change_host_memory() {
    ModelBuffer& model = buffers_[random_.below(buffers_.size())];
    if (!is_host(model.kind) || model.busy) return;
    model.expected = pattern(kBufferBytes, random_.below(1000));
    model.buffer->write(model.expected);
  }

  Random random_;
  CopyTest test_;
  Stream streams_[2];
  int last_device_ = 0;
  std::vector<ModelBuffer> buffers_;
  std::vector<Transfer> transfers_;
  std::uint64_t bytes_copied_ = 0;
};

}  // namespace

TEST_CASE("random copies between memory of every kind give what copying at once gives") {
  for_each_seed([](std::uint64_t seed) {
    CAPTURE(seed);
    Program program(seed);
    const std::uint64_t count = operations(600);
    for (std::uint64_t operation = 0; operation < count; ++operation) {
      CAPTURE(operation);
      program.step();
    }
    program.settle();
  });
}
