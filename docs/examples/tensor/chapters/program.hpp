// SPDX-License-Identifier: Apache-2.0
// The main function that the chapters share. BERTH_DRIVER selects the driver, as for every program
// with berth. With `sim`, BERTH_SIM describes the machine. `--seeds N` runs the chapter N times on
// simulated devices, each time in another order of work, and counts what the simulator finds.
#pragma once

#include <berth/sim.hpp>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

#include "../backends/nvrtc.hpp"
#include "../backends/sim.hpp"
#include "../core/library.hpp"

namespace mini {

/// Prints to `out`. `timed`: times are of interest, and are the same in every run.
using Chapter = void (*)(std::ostream& out, bool timed);

inline berth::sim::Simulator* simulator = nullptr;  ///< null on a GPU

/// Runs the chapter, and returns what the simulator finds.
inline std::vector<std::string> simulate(Chapter chapter, const std::string& machine,
                                         std::ostream& out, bool timed) {
  berth::sim::Simulator simulated(machine);
  simulator = &simulated;
  {
    berth::RuntimeOptions chosen;
    chosen.driver = "sim";
    Library library([&](berth::Runtime&) { return std::make_unique<SimulatedKernels>(simulated); },
                    chosen);
    chapter(out, timed);
  }
  return simulated.take_findings();
}

/// Prints the error, if `call` fails.
inline void show_error(std::ostream& out, const std::function<void()>& call) {
  try {
    call();
  } catch (const berth::Error& error) {
    out << "error: " << error.what() << '\n';
  }
}

inline int run_seeds(Chapter chapter, const std::string& machine, int seeds) {
  std::size_t findings = 0;
  std::string first;
  for (int seed = 1; seed <= seeds; ++seed) {
    std::ostringstream out;
    const auto found =
        simulate(chapter, machine + ",progress=random,seed=" + std::to_string(seed), out, false);
    findings += found.size();
    if (seed == 1) first = out.str();
    if (out.str() == first && found.empty()) continue;
    std::cout << "seed " << seed << ":\n" << out.str();
    for (const std::string& finding : found) std::cout << finding << '\n';
  }
  std::cout << seeds << " seeds of random order: " << findings << " findings\n";
  return findings == 0 ? 0 : 1;
}

/// The main function of a chapter. `machine`: what is simulated, as in BERTH_SIM.
inline int program(int argc, char** argv, Chapter chapter, const std::string& machine) try {
  if (argc == 3 && argv[1] == std::string("--seeds"))
    return run_seeds(chapter, machine, std::stoi(argv[2]));
  const char* const driver = std::getenv("BERTH_DRIVER");
  if (driver == nullptr || driver != std::string("sim")) {
    const auto make = [](berth::Runtime& runtime) -> std::unique_ptr<Kernels> {
      return std::make_unique<CompiledKernels>(runtime);
    };
    Library library(make);
    chapter(std::cout, true);
    return 0;
  }
  const char* const described = std::getenv("BERTH_SIM");
  const std::string config = described != nullptr ? described : machine + ",progress=timed";
  const auto findings = simulate(chapter, config, std::cout, true);
  for (const std::string& finding : findings) std::cout << "found: " << finding << '\n';
  return findings.empty() ? 0 : 1;
} catch (const berth::Error& error) {
  std::cout << "error: " << error.what() << '\n';
  return 1;
}

}  // namespace mini
