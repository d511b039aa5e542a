// SPDX-License-Identifier: Apache-2.0
// Kinds of parameters: waits for values, and batches of them and of writes.
#pragma once

#include <array>

#include "fuzz/memory_parameters.hpp"

namespace berth::fuzz {

inline constexpr std::size_t kBatchRoom = 3;

/// A wait that takes real time where none may be taken is refused for its flags.
struct WaitFlags {
  [[nodiscard]] Number::Drawn draw(Turn& turn) const {
    const Number::Drawn drawn = number(0, 1, 2, 3).draw(turn);
    return turn.real_time ? drawn : Number::Drawn{UINT32_MAX};
  }
};
inline constexpr WaitFlags wait_flags{};

/// How many, before the batch itself.
struct BatchCount {
  [[nodiscard]] Number::Drawn draw(Turn& turn) const {
    return {turn.bytes.byte() % (kBatchRoom + 1)};
  }
};
inline constexpr BatchCount batch_count{};

struct Batch {
  struct Drawn {
    std::array<CUstreamBatchMemOpParams, kBatchRoom> operations;
    bool is_null;
    [[nodiscard]] CUstreamBatchMemOpParams* value() {
      return is_null ? nullptr : operations.data();
    }
    static void after(Turn&, bool) {}
  };
  [[nodiscard]] Drawn draw(Turn& turn) const {
    Drawn drawn{{}, false};
    for (CUstreamBatchMemOpParams& params : drawn.operations) {
      params.operation = static_cast<CUstreamBatchMemOpType>(turn.bytes.byte() % 8);
      params.waitValue.address = address(Kind::memory).draw(turn).address;
      params.waitValue.value64 = turn.bytes.byte();
      params.waitValue.flags = static_cast<unsigned>(wait_flags.draw(turn).number);
    }
    return drawn;
  }
};
inline constexpr Batch batch{};

/// The same for a node of a graph.
struct NodeBatch {
  struct Drawn {
    Batch::Drawn batch;
    CUDA_BATCH_MEM_OP_NODE_PARAMS params;
    bool is_null;
    [[nodiscard]] CUDA_BATCH_MEM_OP_NODE_PARAMS* value() {
      params.paramArray = batch.value();
      return is_null ? nullptr : &params;
    }
    static void after(Turn&, bool) {}
  };
  [[nodiscard]] Drawn draw(Turn& turn) const {
    const std::uint8_t choice = turn.bytes.byte();
    Drawn drawn{Batch{}.draw(turn), {}, choice >= kNull};
    drawn.params.ctx = Bits{draw_handle(turn, Kind::context)};
    drawn.params.count = choice % (kBatchRoom + 1);
    drawn.params.flags = choice >= kHostile ? 1 : 0;
    return drawn;
  }
};
inline constexpr NodeBatch node_batch{};

}  // namespace berth::fuzz
