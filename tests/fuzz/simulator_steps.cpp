// SPDX-License-Identifier: Apache-2.0
// What a test does with its simulator, besides driver calls.
#include "berth/bytes.hpp"

#include "fuzz/actions.hpp"
#include "fuzz/memory_parameters.hpp"

namespace berth::fuzz {
namespace {

constexpr CallResult kDone{0, true};

CUstream draw_stream(Turn& turn) {
  return Bits{draw_handle(turn, Kind::stream)};
}

CallResult run_next(Turn& turn) {
  const CUstream stream = draw_stream(turn);
  const std::size_t pending = turn.simulator.pending_operations(stream);
  const bool ran = turn.simulator.run_next(stream);
  BERTH_CHECK(!ran || pending != 0);
  return kDone;
}

CallResult run_all(Turn& turn) {
  turn.simulator.run_all();
  BERTH_CHECK(turn.simulator.live().streams_draining == 0);
  return kDone;
}

CallResult launch(Turn& turn) {
  const CUstream stream = draw_stream(turn);
  std::vector<sim::MemoryUse> uses;
  for (std::size_t left = turn.bytes.byte() % 3; left != 0; --left) {
    const std::uint64_t start = address(Kind::memory).draw(turn).address;
    const std::uint64_t bytes = size.draw(turn).number;
    uses.push_back({start, bytes, turn.bytes.byte() % 2 == 0});
  }
  turn.simulator.launch(stream, turn.bytes.number(4), uses);
  return kDone;
}

CallResult spend(Turn& turn) {
  const std::uint64_t before = turn.simulator.now_ns();
  const std::uint64_t ns = turn.bytes.number(4);
  turn.simulator.spend(ns);
  BERTH_CHECK(turn.simulator.now_ns() >= before + ns);
  return kDone;
}

CallResult peek(Turn& turn) {
  const std::uint64_t start = address(Kind::memory).draw(turn).address;
  const std::size_t bytes = turn.bytes.number(2);
  const std::vector<unsigned char> content = turn.simulator.peek(start, bytes);
  BERTH_CHECK(content.empty() || content.size() == bytes);
  return kDone;
}

CallResult list_live(Turn& turn) {
  BERTH_CHECK(!turn.simulator.live_list().empty() || turn.simulator.live() == sim::Live{});
  return kDone;
}

CallResult limit_memory(Turn& turn) {
  turn.simulator.set_device_memory_limit(0, turn.bytes.byte() * 64_KiB);
  return kDone;
}

CallResult take_findings(Turn& turn) {
  turn.simulator.take_findings();
  BERTH_CHECK(turn.simulator.take_findings().empty());
  return kDone;
}

}  // namespace

const std::vector<Action>& simulator_steps() {
  static const std::vector<Action> steps = {
      {"run_next", &run_next},
      {"run_all", &run_all},
      {"launch", &launch},
      {"spend", &spend},
      {"peek", &peek},
      {"list_live", &list_live},
      {"limit_memory", &limit_memory},
      {"take_findings", &take_findings},
  };
  return steps;
}

}  // namespace berth::fuzz
