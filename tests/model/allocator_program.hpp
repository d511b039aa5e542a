// SPDX-License-Identifier: Apache-2.0
// What random programs on a device's memory have in common: streams that come and go and run their
// work in random order, and reads that must find what was written.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "model/random_program.hpp"
#include "support/simulation.hpp"

namespace berth::test {

inline const Device kDevice = Device::cuda(0);

/// A stream of the program: berth's, or one that the program made and retires by itself.
struct ProgramStream {
  explicit ProgramStream(StreamRef ref_) : ref(ref_) {}
  StreamRef ref;
  std::optional<Stream> owner;
};
using StreamPointer = std::shared_ptr<ProgramStream>;

/// A block that the program has, and the stream in whose order it is.
struct ProgramBlock {
  Allocation memory;
  StreamPointer stream;
  std::shared_ptr<EventLease> last_work;  ///< of the stream, where it is gone

  [[nodiscard]] std::size_t bytes() const { return memory.bytes(); }
};

class AllocatorProgram : public RandomProgram {
 public:
  [[nodiscard]] std::uint64_t order_hash() const { return simulation_.simulator.order_hash(); }

 protected:
  AllocatorProgram(std::uint64_t seed, std::size_t device_bytes, RuntimeOptions options)
      : RandomProgram(seed),
        simulation_(config(seed, device_bytes), std::move(options)),
        runtime_(*simulation_.runtime),
        memory_(runtime_.memory(kDevice)) {
    for (int stream = 0; stream < 4; ++stream) streams_.push_back(new_stream());
  }
  ~AllocatorProgram() {
    for (const auto& stream : streams_) destroy(*stream);
  }

  [[nodiscard]] StreamPointer some_stream() { return streams_[random_.below(streams_.size())]; }
  /// Puts another in its place, and marks those of `blocks` that were in its order.
  template <class Blocks>
  void replace_stream(std::size_t index, Blocks& blocks) {
    const StreamPointer gone = std::exchange(streams_[index], new_stream());
    const auto last_work = std::make_shared<EventLease>(runtime_.record(gone->ref));
    for (auto& block : blocks) {
      if (block.stream == gone) block.last_work = last_work;
    }
    destroy(*gone);
  }

  /// Declares that what `stream` holds now uses a block, in one of the two ways.
  void record(const Allocation& memory, StreamRef stream) {
    if (random_.below(2) == 0) {
      memory.record_use(stream);
    } else {
      memory.record_stream(stream);
    }
  }
  /// What `user` does next comes behind the work of the block's stream.
  void wait_for_block(const ProgramBlock& block, const ProgramStream& user) {
    if (block.last_work) {
      user.ref.wait(*block.last_work);
    } else {
      user.ref.wait(runtime_.record(block.stream->ref));
    }
  }

  /// Reads a block on `stream`, in order behind its writes, into pinned memory. Each byte must be
  /// `value`.
  void read(const ProgramBlock& block, unsigned char value, const ProgramStream& stream) {
    Allocation target = runtime_.pinned_memory().allocate(block.bytes());
    runtime_.copier().copy_async(target.data(), block.memory.data(), block.bytes(), stream.ref);
    record(block.memory, stream.ref);
    readings_.push_back({std::move(target), runtime_.record(stream.ref), value});
  }
  /// Whose stream is gone, or not: reads it before it is freed.
  void read_at_the_end(const ProgramBlock& block, unsigned char value) {
    if (block.last_work) {
      const StreamPointer reader = some_stream();
      reader->ref.wait(*block.last_work);
      read(block, value, *reader);
    } else {
      read(block, value, *block.stream);
    }
  }
  /// What `stream` does next may write what is being read.
  void wait_for_readings(StreamRef stream) {
    for (const Reading& reading : readings_) stream.wait(reading.done);
  }
  void verify_finished_readings() {
    std::erase_if(readings_, [](const Reading& reading) {
      if (!reading.done->is_done()) return false;
      const auto* const bytes = static_cast<const unsigned char*>(reading.target.data());
      CHECK(std::all_of(bytes, bytes + reading.target.bytes(),
                        [&](unsigned char byte) { return byte == reading.value; }));
      return true;
    });
  }
  /// Waits for all work, and for what has been read.
  void settle_all() {
    for (const auto& stream : streams_) stream->ref.sync();
    for (const Reading& reading : readings_) reading.done->sync();
    verify_finished_readings();
    CHECK(readings_.empty());
  }

  Simulation simulation_;
  Runtime& runtime_;
  DeviceAllocator& memory_;
  std::vector<StreamPointer> streams_;
  bool filling_ =
      true;  ///< or emptying: the program drifts between a nearly full device and an empty one
  std::optional<std::size_t> limit_;

 private:
  /// A read that is under way: what it must find.
  struct Reading {
    Allocation target;
    EventLease done;
    unsigned char value;
  };

  static sim::Config config(std::uint64_t seed, std::size_t device_bytes) {
    sim::Config config;
    config.memory = {device_bytes};
    config.progress = sim::Progress::random;
    config.seed = seed;
    return config;
  }

  StreamPointer new_stream() {
    if (random_.one_in(3)) {
      const DeviceGuard guard(runtime_.devices(), kDevice);
      CUstream native = nullptr;
      REQUIRE(sim::berth_sim_cuStreamCreateWithPriority(&native, CU_STREAM_NON_BLOCKING, 0) ==
              CUDA_SUCCESS);
      return std::make_shared<ProgramStream>(runtime_.stream(kDevice, native));
    }
    Stream owner = runtime_.create_stream(kDevice);
    auto stream = std::make_shared<ProgramStream>(owner.ref());
    stream->owner.emplace(std::move(owner));
    return stream;
  }
  void destroy(ProgramStream& stream) {
    if (stream.owner) {
      stream.owner.reset();
      return;
    }
    memory_.retire_stream(stream.ref);
    runtime_.pinned_memory().retire_stream(stream.ref);
    const DeviceGuard guard(runtime_.devices(), kDevice);
    CHECK(sim::berth_sim_cuStreamDestroy(stream.ref.native()) == CUDA_SUCCESS);
  }

  std::vector<Reading> readings_;
};

}  // namespace berth::test
