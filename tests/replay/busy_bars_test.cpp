// SPDX-License-Identifier: Apache-2.0
// What several streams with work pending may cost: waste beside the fluid bound, and driver calls
// once a program repeats. Nothing here depends on the machine, so a bar stands close to what is
// measured. The trace that is no file of the project's is passed over where it is missing.
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "berth/trace.hpp"

#include "peers/berth_allocator.hpp"
#include "workloads/busy_program.hpp"
#include "workloads/busy_replay.hpp"
#include "workloads/synthetic_traces.hpp"

using namespace berth;
using namespace berth::bench;

namespace {

constexpr int kPasses = 10;

struct BusyBar {
  const char* trace;
  std::uint64_t kernel_us;
  double waste_percent;        ///< of all passes
  std::uint64_t calls_pass10;  ///< of the driver
};

// With kernels of 3 us host and GPU are about as fast, and what is idle when differs from pass to
// pass: there, calls go on.
constexpr BusyBar kBars[] = {
    {"own-pipeline3", 0, 2, 2000},
    {"own-pipeline3", 3, 10.5, 600},
    {"own-pipeline3", 20, 6.5, 550},
    {"own-pipeline3", 200, 6.5, 2200},
    {"own-sharded4", 0, 0.2, 90},
    {"own-sharded4", 3, 4, 150},
    {"own-sharded4", 20, 12, 20},
    {"own-sharded4", 200, 10.5, 25},
    {"llama7b-offload-10streams", 0, 0.1, 600},
    {"llama7b-offload-10streams", 3, 4, 30000},
    {"llama7b-offload-10streams", 20, 14.5, 2100},
    {"llama7b-offload-10streams", 200, 39, 300},
};

struct WaitsBar {
  const char* trace;
  OtherUses uses;
  std::uint64_t kernel_us;
  double waste_percent;  ///< of all passes, where streams wait before memory grows
};

constexpr WaitsBar kWaitsBars[] = {
    {"own-pipeline3", OtherUses::none, 3, 3},
    {"own-pipeline3", OtherUses::none, 20, 3},
    {"own-sharded4", OtherUses::none, 20, 3},
    {"llama7b-offload-10streams", OtherUses::none, 3, 3},
    {"llama7b-offload-10streams", OtherUses::none, 20, 3},
    {"llama7b-offload-10streams", OtherUses::none, 200, 3},
    {"own-pipeline3", OtherUses::record_stream, 20, 4},
    {"own-sharded4", OtherUses::record_stream, 20, 3},
    {"own-sharded4", OtherUses::record_use, 20, 3},
};

/// One of synthetic_traces(), or a file of the folders that BERTH_TEST_TRACES names.
std::optional<Trace> find_trace(const std::string& name) {
  for (const SyntheticTrace& synthetic : synthetic_traces())
    if (synthetic.name == name) return synthetic.make();
  const char* const folders = std::getenv("BERTH_TEST_TRACES");
  std::istringstream rest(folders == nullptr ? "" : folders);
  for (std::string folder; std::getline(rest, folder, ':');) {
    const auto file = std::filesystem::path(folder) / (name + ".csv");
    if (std::filesystem::exists(file)) return read_trace(file.string());
  }
  return std::nullopt;
}

/// nullopt, saying so, where there is no such trace.
std::optional<BusyFigures> measure(const char* name, std::uint64_t kernel_us, OtherUses uses,
                                   const DeviceAllocatorOptions& memory) {
  const std::optional<Trace> trace = find_trace(name);
  if (!trace) {
    MESSAGE("skipped: no trace " << name);
    return std::nullopt;
  }
  BusyOptions options;
  options.kernel_ns = kernel_us * 1000;
  options.passes = kPasses;
  options.sync = true;
  options.other_uses = uses;
  return measure_busy<BerthAllocator>(BusyProgram(*trace, options), options, memory);
}

}  // namespace

TEST_CASE("waste and driver calls of programs with several streams stay within their bars") {
  for (const BusyBar& bar : kBars) {
    CAPTURE(bar.trace);
    CAPTURE(bar.kernel_us);
    const auto figures = measure(bar.trace, bar.kernel_us, OtherUses::none, {});
    if (!figures) continue;
    CHECK(figures->waste(kPasses) <= bar.waste_percent / 100);
    CHECK(total(figures->passes.back().calls) <= bar.calls_pass10);
    CHECK(figures->passes.back().refused == 0);
  }
}

TEST_CASE("with waits before growth, little more is reserved than was ever live") {
  for (const WaitsBar& bar : kWaitsBars) {
    CAPTURE(bar.trace);
    CAPTURE(static_cast<int>(bar.uses));
    const auto figures = measure(bar.trace, bar.kernel_us, bar.uses,
                                 {.cross_stream_reuse = CrossStreamReuse::before_growth});
    if (!figures) continue;
    CHECK(figures->waste(kPasses) <= bar.waste_percent / 100);
    CHECK(figures->passes.back().refused == 0);
  }
}
