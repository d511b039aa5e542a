// SPDX-License-Identifier: Apache-2.0
// main() for binaries that measure on simulators of their own, never on hardware.
#pragma once

namespace berth::bench {

/// Registers by `add_benchmarks()` and runs. If BERTH_DRIVER names another driver, reports that
/// `binary` is left out. Returns the exit status.
int run_simulated(int argc, char** argv, const char* binary, void (*add_benchmarks)());

}  // namespace berth::bench
