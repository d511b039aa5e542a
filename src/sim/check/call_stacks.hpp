// SPDX-License-Identifier: Apache-2.0
// Call stacks of driver calls, for findings. Taking a stack costs a walk of the frames and a
// look-up; frames are symbolized only for a finding. Guarded by sim::mutex.
#pragma once

#include <cstddef>
#include <string>
#include <unordered_set>
#include <vector>

#include "base/json_writer.hpp"
#include "sim/check/python_frames.hpp"

namespace berth::sim {

/// The innermost frame first. describe() omits the frames of the simulator.
struct CallStack {
  std::vector<void*> addresses;            ///< return addresses
  std::vector<const PythonPlace*> python;  ///< of the thread's Python interpreter, if it has one

  bool operator==(const CallStack&) const = default;
};

class CallStacks {
 public:
  explicit CallStacks(bool on);

  /// The stack of the calling thread, valid for the lifetime of this object; null if stacks are
  /// off.
  const CallStack* here();

 private:
  struct Hash {
    std::size_t operator()(const CallStack& stack) const;
  };

  bool on_;
  PythonFrames python_;
  CallStack current_;  // reused, so that a known stack needs no allocation
  std::unordered_set<CallStack, Hash> stacks_;
};

/// A line for each frame: "    pipeline.py:12 in prefetch", "    program+0x1234".
std::string describe(const CallStack& stack);
/// A JSON object for each frame: {"file","line","function"} for Python frames, and
/// {"module","offset","function"} for others, whose function is unknown: it is empty.
void append_frames(JsonWriter& json, const CallStack& stack);

}  // namespace berth::sim
