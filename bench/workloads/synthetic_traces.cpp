// SPDX-License-Identifier: Apache-2.0
#include "workloads/synthetic_traces.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <random>
#include <utility>

#include "berth/bytes.hpp"

namespace berth::bench {
namespace {

/// Writes the rows of a trace.
class Writer {
 public:
  /// `users`: of freed blocks, as the header of a trace names them.
  explicit Writer(std::string name, const std::string& users = "") {
    trace_.name = std::move(name);
    if (!users.empty()) trace_.header.emplace_back("users", users);
  }

  std::int64_t allocate(std::uint64_t bytes, std::int32_t stream = 0) {
    add(TraceOp::alloc, static_cast<std::int64_t>(blocks_.size()), stream, bytes);
    blocks_.push_back({bytes, stream});
    return static_cast<std::int64_t>(blocks_.size()) - 1;
  }
  void free(std::int64_t id) { add(TraceOp::free, id); }
  /// Blocks that another stream still uses.
  void free_behind(std::int64_t id) {
    add(TraceOp::free_requested, id);
    add(TraceOp::free_completed, id);
  }
  Trace take() { return std::move(trace_); }

 private:
  struct Block {
    std::uint64_t bytes;
    std::int32_t stream;
  };

  void add(TraceOp op, std::int64_t id) {
    const Block& block = blocks_[static_cast<std::size_t>(id)];
    add(op, id, block.stream, block.bytes);
  }
  void add(TraceOp op, std::int64_t id, std::int32_t stream, std::uint64_t bytes) {
    trace_.events.push_back({op, 0, stream, id, bytes, trace_.events.size()});
  }

  Trace trace_;
  std::vector<Block> blocks_;
};

/// Uniform, both ends included: the standard's distributions differ between libraries.
std::uint64_t draw(std::mt19937_64& random, std::uint64_t least, std::uint64_t most) {
  return least + random() % (most - least + 1);
}

/// Reads a batch on stream 1, computes on 0, writes results back on 2. Batches pass from stream to
/// stream, and are freed behind the last user.
Trace pipeline3() {
  Writer writer("own-pipeline3", "0 2");
  std::mt19937_64 random(11);
  std::deque<std::int64_t> ahead;
  for (int step = 0; step < 400; ++step) {
    const std::uint64_t rows = draw(random, 8, 64);
    ahead.push_back(writer.allocate(rows * 750'000, 1));
    if (ahead.size() < 3) continue;
    const std::int64_t batch = ahead.front();
    ahead.pop_front();
    std::vector<std::int64_t> layers;
    for (int layer = 0; layer < 12; ++layer) {
      layers.push_back(writer.allocate(rows * (100'000 << (layer % 4))));
      const std::int64_t scratch = writer.allocate(draw(random, 1, 24) * 1_MiB);
      writer.free(scratch);
    }
    const std::int64_t result = writer.allocate(rows * 40'000);
    for (const std::int64_t layer : layers) writer.free(layer);
    writer.free_behind(batch);
    const std::int64_t packed = writer.allocate(rows * 40'000, 2);
    writer.free_behind(result);
    writer.free(packed);
  }
  return writer.take();
}

/// Weights of a layer are gathered on stream 1 before they are needed and freed behind stream 0;
/// gradients are reduced on 2, and states are fetched on 3.
Trace sharded4() {
  constexpr int kLayers = 24;
  constexpr std::uint64_t kLayerBytes = 300 * 1_MiB + 160 * 1_KiB;
  Writer writer("own-sharded4", "0 2");
  std::vector<std::int64_t> shards;
  for (int layer = 0; layer < kLayers; ++layer) shards.push_back(writer.allocate(kLayerBytes / 4));
  for (int step = 0; step < 4; ++step) {
    std::vector<std::int64_t> activations;
    std::int64_t next = writer.allocate(kLayerBytes, 1);
    for (int layer = 0; layer < kLayers; ++layer) {
      const std::int64_t weights = next;
      if (layer + 1 < kLayers) next = writer.allocate(kLayerBytes, 1);
      activations.push_back(writer.allocate(90 * 1_MiB));
      for (int part = 0; part < 3; ++part) {
        const std::int64_t scratch = writer.allocate(std::uint64_t{28'000'000} << part);
        writer.free(scratch);
      }
      writer.free_behind(weights);
    }
    for (int layer = kLayers - 1; layer >= 0; --layer) {
      const std::int64_t weights = writer.allocate(kLayerBytes, 1);
      const std::int64_t gradient = writer.allocate(kLayerBytes);
      writer.free(activations[static_cast<std::size_t>(layer)]);
      const std::int64_t reduced = writer.allocate(kLayerBytes / 4, 2);
      const std::int64_t state = writer.allocate(kLayerBytes / 2, 3);
      writer.free_behind(gradient);
      writer.free_behind(weights);
      writer.free_behind(reduced);
      writer.free(state);
    }
  }
  for (const std::int64_t shard : shards) writer.free(shard);
  return writer.take();
}

/// Requests begin and end, their caches grow by a copy, and the batch differs at each step.
Trace serving() {
  constexpr std::uint64_t kLayers = 8;
  constexpr std::uint64_t kTokenBytes = 4096;
  struct Request {
    std::uint64_t tokens;
    std::uint64_t steps_left;
    std::vector<std::int64_t> caches;
  };
  Writer writer("own-serving");
  std::mt19937_64 random(13);
  for (std::uint64_t layer = 0; layer < kLayers; ++layer) writer.allocate(180 * 1_MiB);
  std::vector<Request> requests;
  for (int step = 0; step < 1500; ++step) {
    if (requests.size() < 24 && draw(random, 0, 2) != 0) {
      // Three powers of two apart, as prompts are.
      Request request{draw(random, 40, 90) << draw(random, 0, 6), draw(random, 8, 160), {}};
      for (std::uint64_t layer = 0; layer < kLayers; ++layer)
        request.caches.push_back(writer.allocate(request.tokens * kTokenBytes));
      requests.push_back(std::move(request));
    }
    for (std::uint64_t layer = 0; layer < kLayers; ++layer) {
      const std::int64_t hidden = writer.allocate(1 + requests.size() * 16'384);
      const std::int64_t wide = writer.allocate(1 + requests.size() * 57'344);
      for (Request& request : requests) {
        if ((request.tokens + layer) % 64 != 0) continue;
        const std::int64_t grown = writer.allocate((request.tokens + 64) * kTokenBytes);
        writer.free(request.caches[layer]);
        request.caches[layer] = grown;
      }
      writer.free(hidden);
      writer.free(wide);
    }
    for (Request& request : requests) {
      ++request.tokens;
      if (--request.steps_left != 0) continue;
      for (const std::int64_t cache : request.caches) writer.free(cache);
    }
    std::erase_if(requests, [](const Request& request) { return request.steps_left == 0; });
  }
  for (const Request& request : requests)
    for (const std::int64_t cache : request.caches) writer.free(cache);
  return writer.take();
}

/// A slab for each conversation, of its final size: most are small, a few are huge. If the next one
/// does not fit, a random one ends.
Trace slabs() {
  constexpr std::uint64_t kBudget = 48_GiB;
  Writer writer("own-slabs");
  std::mt19937_64 random(14);
  std::vector<std::pair<std::int64_t, std::uint64_t>> live;
  std::uint64_t used = 0;
  for (int conversation = 0; conversation < 12'000; ++conversation) {
    // Each doubling is half as likely as the one before.
    const auto doublings = std::min<std::uint64_t>(
        static_cast<std::uint64_t>(__builtin_ctzll(random() | (1ULL << 9))), 8);
    const std::uint64_t bytes = draw(random, 1024, 2047) * (4_KiB << doublings);
    while (used + bytes > kBudget) {
      const std::size_t which = random() % live.size();
      writer.free(live[which].first);
      used -= live[which].second;
      live[which] = live.back();
      live.pop_back();
    }
    live.emplace_back(writer.allocate(bytes), bytes);
    used += bytes;
  }
  for (const auto& [id, bytes] : live) writer.free(id);
  return writer.take();
}

/// One block at a time; its size is the next of `sizes`, which lie between 512 B and 8 MiB at equal
/// ratios, in an order that a seed gives.
Trace rotation(std::size_t sizes) {
  constexpr std::uint64_t kLeast = 512;
  constexpr std::uint64_t kOctaves = 14;
  constexpr std::size_t kOperationsMin = 8192;
  Writer writer("own-rotation" + std::to_string(sizes));
  std::mt19937_64 random(15);
  std::vector<std::uint64_t> bytes;
  for (std::size_t index = 0; index < sizes; ++index) {
    const std::uint64_t place = index * kOctaves * 1024 / (sizes - 1);
    const std::uint64_t octave = kLeast << (place / 1024);
    bytes.push_back(octave + octave * (place % 1024) / 1024);
  }
  for (std::size_t index = sizes - 1; index > 0; --index)
    std::swap(bytes[index], bytes[random() % (index + 1)]);
  for (std::size_t count = 0; count < std::max(kOperationsMin, 2 * sizes); ++count)
    writer.free(writer.allocate(bytes[count % sizes]));
  return writer.take();
}

}  // namespace

const std::vector<SyntheticTrace>& synthetic_traces() {
  static const std::vector<SyntheticTrace> traces = [] {
    std::vector<SyntheticTrace> made = {{"own-pipeline3", pipeline3},
                                        {"own-sharded4", sharded4},
                                        {"own-serving", serving},
                                        {"own-slabs", slabs}};
    for (const SyntheticTrace& each : rotations())
      made.push_back({"own-rotation" + each.name, each.make});
    return made;
  }();
  return traces;
}

const std::vector<SyntheticTrace>& rotations() {
  static const std::vector<SyntheticTrace> traces = [] {
    std::vector<SyntheticTrace> made;
    for (const std::size_t sizes : {2, 8, 64, 512, 4096})
      made.push_back({std::to_string(sizes), [sizes] { return rotation(sizes); }});
    return made;
  }();
  return traces;
}

}  // namespace berth::bench
