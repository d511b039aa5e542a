// SPDX-License-Identifier: Apache-2.0
#include "sim/race_detector.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "sim/state.hpp"

namespace berth::sim {
namespace {

std::string describe(const CallSite& call) {
  return fmt::format("{} (call {})", function_name(call.function), call.number);
}

std::string describe(const Use& use) {
  return fmt::format("{} on stream {:#x} {} {} B at {:#x}", describe(use.call), use.stream,
                     use.writes ? "writes" : "reads", use.bytes, use.address);
}

}  // namespace

void RaceDetector::use(const Stream& stream, const Operation& operation, std::uint64_t address,
                       std::uint64_t range_bytes, const std::byte* data, std::size_t bytes,
                       bool writes) {
  if (!on_) return;
  const Use use{operation.stamp, operation.call, stream.handle, address, range_bytes, writes};
  if (const auto earlier = shadow_.enter(data, bytes, use, operation.before))
    findings_.add(fmt::format("race: {}, while {}; nothing orders the one after the other",
                              describe(use), describe(*earlier)));
}

void RaceDetector::check_end(State& state, const Range& range, CallSite call) {
  if (!on_) return;
  const auto check = [&](const std::byte* data, std::size_t bytes) {
    const auto use = shadow_.find_use_beyond(data, bytes, order_.host());
    if (use)
      findings_.add(fmt::format("race: {} ends {} B at {:#x}, while {}; nothing waited for that",
                                describe(call), range.bytes, range.start, describe(*use)));
    return use.has_value();
  };
  if (range.is_host()) {
    check(reinterpret_cast<const std::byte*>(range.start), range.bytes);
    return;
  }
  const PhysicalMemory& memory = *state.devices[static_cast<std::size_t>(range.device)].memory;
  for (std::uint64_t at = 0; at < range.bytes;) {
    const std::uint64_t in_block = range.block_offset + at;
    const PhysicalBlock::Piece& piece = range.block->piece_at(in_block);
    const std::uint64_t in_piece = in_block - piece.block_offset;
    const std::uint64_t bytes = std::min(range.bytes - at, piece.bytes - in_piece);
    if (check(memory.data(piece.device_offset + in_piece), bytes)) return;
    at += bytes;
  }
}

}  // namespace berth::sim
