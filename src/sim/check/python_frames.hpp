// SPDX-License-Identifier: Apache-2.0
// The frames of Python functions of the calling thread. Bindings release Python's lock around a
// call of the driver, and to take it here could lock the program up: another thread may hold it and
// wait for a lock of this thread's. Without the lock, Python's functions may not be asked for
// frames, but a thread's own frames do not change while it is in a call. So the simulator reads
// them in memory, by the layout of CPython 3.11 and newer. It uses the layout only after it has
// compared all frames of the main thread, while that held the lock, with what Python's own
// functions say of them. Guarded by sim::mutex.
// Source: CPython, Include/internal/pycore_frame.h (pycore_interpframe_structs.h) of each version.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace berth::sim {

struct PythonPlace {
  std::string file;
  int line;
  std::string function;
  bool is_programs;  ///< not of an installed package, or of Python
};

class PythonFrames {
 public:
  /// `on`: looks for an interpreter in this process, and asks it to have its layout compared soon.
  explicit PythonFrames(bool on);

  /// Appends where each frame of the calling thread stands, the innermost first, at most `frames`,
  /// and if all of these are of packages, the nearest of the program too. None if the thread runs
  /// no Python function, or before the layout was compared.
  void take(std::vector<const PythonPlace*>& places, std::size_t frames);

 private:
  struct Known {
    const void* file;  ///< both objects of the code that was at this address
    const void* function;
    std::unique_ptr<PythonPlace> place;
  };
  using Instruction = std::pair<const void*, const void*>;  // and its code

  const PythonPlace* find(const std::byte* code, const std::byte* instruction);

  std::map<Instruction, Known> known_;
  std::vector<std::unique_ptr<PythonPlace>> gone_;  // whose code was replaced
};

}  // namespace berth::sim
