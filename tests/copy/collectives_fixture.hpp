// SPDX-License-Identifier: Apache-2.0
// Buffers on several devices and in host memory, with a known content and guards around it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "berth/collectives.hpp"

#include "copy/copy_fixture.hpp"

namespace berth::test {

/// Where a buffer is.
struct Place {
  enum class Kind { device, pinned, pageable };
  Kind kind = Kind::device;
  int device = 0;

  static Place on(int device) { return {Kind::device, device}; }
  static Place pinned() { return {Kind::pinned}; }
  static Place pageable() { return {Kind::pageable}; }

  [[nodiscard]] bool is_host() const { return kind != Kind::device; }
  [[nodiscard]] std::string name() const {
    if (kind == Kind::device) return "cuda:" + std::to_string(device);
    return kind == Kind::pinned ? "pinned" : "pageable";
  }
};

struct CollectiveTest : CopyTest {
  /// What a broadcast hands on at a time is half as much again.
  static constexpr std::size_t kPiece = 64_KiB;

  explicit CollectiveTest(sim::Config config, std::size_t piece_bytes = kPiece)
      : CopyTest(config, {.staging_slot_bytes = 64_KiB,
                          .staging_slots = 4,
                          .workers = 2,
                          .direct_piece_bytes = piece_bytes}),
        collectives(runtime->collectives()) {
    for (int device = 0; device < config.devices; ++device) streams.push_back(stream(device));
  }

  static sim::Config with(sim::Progress progress, int devices = 4, bool peer = true,
                          std::uint64_t seed = 1) {
    sim::Config config;
    config.devices = devices;
    config.memory = {1_GiB};
    config.progress = progress;
    config.peer = peer;
    config.seed = seed;
    return config;
  }

  [[nodiscard]] StreamRef on(int device) const { return streams[static_cast<std::size_t>(device)]; }
  void sync_all() const {
    for (const Stream& stream : streams) stream.ref().sync();
  }

  Collectives& collectives;
  std::vector<Stream> streams;  ///< one a device
};

/// At an odd address. What it does to device memory goes past berth, and is done when the call
/// returns.
class Memory {
 public:
  Memory(CollectiveTest& test, Place place, std::size_t bytes, StreamRef stream)
      : test_(test), place_(place), bytes_(bytes), stream_(stream) {
    const std::size_t whole = bytes + 2 * kGuard;
    switch (place.kind) {
      case Place::Kind::pageable:
        heap_.resize(whole);
        base_ = heap_.data();
        break;
      case Place::Kind::pinned:
        block_ = test.runtime->pinned_memory().allocate(whole);
        base_ = static_cast<unsigned char*>(block_.data());
        break;
      case Place::Kind::device:
        block_ = test.runtime->memory(Device::cuda(place.device)).allocate(whole, stream);
        base_ = static_cast<unsigned char*>(block_.data());
        break;
    }
    if (place.is_host()) {
      std::fill_n(base_, whole, kGuardByte);
    } else {
      on_stream([&] {
        return sim::berth_sim_cuMemsetD8Async(address_of(base_), kGuardByte, whole,
                                              stream_.native());
      });
    }
  }
  Memory(Memory&&) = default;

  [[nodiscard]] unsigned char* data() const { return base_ + kGuard; }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }
  [[nodiscard]] StreamRef stream() const { return stream_; }
  [[nodiscard]] Shard shard() const { return {data(), bytes_, stream_}; }

  void write(const Bytes& content) {
    REQUIRE(content.size() == bytes_);
    if (place_.is_host()) {
      std::copy(content.begin(), content.end(), data());
      return;
    }
    on_stream([&] {
      return sim::berth_sim_cuMemcpyAsync(address_of(data()), address_of(content.data()), bytes_,
                                          stream_.native());
    });
  }
  /// The content now, whatever is pending.
  [[nodiscard]] Bytes read() const { return read(data(), bytes_); }
  /// Whether nothing was written beside it.
  [[nodiscard]] bool guards_hold() const {
    const Bytes guard(kGuard, kGuardByte);
    return read(base_, kGuard) == guard && read(data() + bytes_, kGuard) == guard;
  }

 private:
  static constexpr std::size_t kGuard = 37;
  static constexpr unsigned char kGuardByte = 0xC3;

  template <class Submit>
  void on_stream(const Submit& submit) {
    const DeviceGuard guard(test_.runtime->devices(), Device::cuda(place_.device));
    REQUIRE(submit() == CUDA_SUCCESS);
    REQUIRE(sim::berth_sim_cuStreamSynchronize(stream_.native()) == CUDA_SUCCESS);
  }
  [[nodiscard]] Bytes read(const unsigned char* from, std::size_t bytes) const {
    if (place_.is_host()) return {from, from + bytes};
    return test_.simulator.peek(address_of(from), bytes);
  }

  CollectiveTest& test_;
  Place place_;
  std::size_t bytes_;
  StreamRef stream_;
  unsigned char* base_ = nullptr;
  Bytes heap_;
  Allocation block_;
};

/// Buffers of these sizes and places, host memory on the stream of cuda:`host_stream`.
inline std::vector<Memory> memory_at(CollectiveTest& test, const std::vector<Place>& places,
                                     const std::vector<std::size_t>& bytes, int host_stream = 0) {
  std::vector<Memory> memory;
  for (std::size_t index = 0; index < places.size(); ++index) {
    const int device = places[index].is_host() ? host_stream : places[index].device;
    memory.emplace_back(test, places[index], bytes[index], test.on(device));
  }
  return memory;
}

inline std::vector<Shard> shards_of(const std::vector<Memory>& memory) {
  std::vector<Shard> shards;
  for (const Memory& part : memory) shards.push_back(part.shard());
  return shards;
}

inline std::size_t total(const std::vector<std::size_t>& bytes) {
  std::size_t sum = 0;
  for (const std::size_t part : bytes) sum += part;
  return sum;
}

inline Bytes part_of(const Bytes& content, std::size_t offset, std::size_t bytes) {
  const auto begin = content.begin() + std::ptrdiff_t(offset);
  return {begin, begin + std::ptrdiff_t(bytes)};
}

}  // namespace berth::test
