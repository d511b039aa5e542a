// SPDX-License-Identifier: Apache-2.0
// From which code of the program a call came, as findings say it. Taking a stack costs a walk of
// the frames and a look-up; their names are looked up only for a finding. Guarded by sim::mutex.
#pragma once

#include <cstddef>
#include <string>
#include <unordered_set>
#include <vector>

#include "base/json_writer.hpp"
#include "sim/check/python_frames.hpp"

namespace berth::sim {

/// The innermost frame first. Frames of the simulator are left out when it is described.
struct CallStack {
  std::vector<void*> addresses;            ///< where each function goes on
  std::vector<const PythonPlace*> python;  ///< of the thread's interpreter, if it has one

  bool operator==(const CallStack&) const = default;
};

class CallStacks {
 public:
  explicit CallStacks(bool on);

  /// That of the calling thread, kept as long as this object; null where none is taken.
  const CallStack* here();

 private:
  struct Hash {
    std::size_t operator()(const CallStack& stack) const;
  };

  bool on_;
  PythonFrames python_;
  CallStack current_;  // reused, so that a stack that is known takes no memory
  std::unordered_set<CallStack, Hash> stacks_;
};

/// A line for each frame: "    pipeline.py:12 in prefetch", "    program+0x1234".
std::string describe(const CallStack& stack);
/// A value for each frame, within an array: {"file","line","function"} for Python's, and
/// {"module","offset","function"} for the others, whose function is not known: it is empty.
void append_frames(JsonWriter& json, const CallStack& stack);

}  // namespace berth::sim
