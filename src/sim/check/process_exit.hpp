// SPDX-License-Identifier: Apache-2.0
// Whether the process exits: what a program leaves to its end is no leak.
#pragma once

namespace berth::sim {

/// Asks the Python interpreter of this process, if there is one, to tell when its main thread has
/// ended. Repeated calls have no effect.
void watch_python_exit();

/// Whether the calling thread runs the handlers of exit(), or Python's main thread has ended.
bool process_exits();

}  // namespace berth::sim
