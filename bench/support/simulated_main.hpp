// SPDX-License-Identifier: Apache-2.0
// main() for binaries that measure on simulators of their own, which hardware never stands in for.
#pragma once

namespace berth::bench {

/// Registers by `add_benchmarks()` and runs. Where BERTH_DRIVER names another driver, it says that
/// `binary` is left out and does nothing. The exit status.
int run_simulated(int argc, char** argv, const char* binary, void (*add_benchmarks)());

}  // namespace berth::bench
