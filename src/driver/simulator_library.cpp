// SPDX-License-Identifier: Apache-2.0
// Finds libberth_sim. A process must have one simulator, however its parts were linked: the
// look-alikes and a test's Simulator reach it by the loader, which loads a file once.
#include <dlfcn.h>
#include <string>
#include <vector>

#include "base/format.hpp"
#include "driver/driver_source.hpp"
#include "driver/sim_abi.hpp"

// Null unless the program contains libberth_sim or has linked it.
#pragma weak berth_sim_resolve

namespace berth {
namespace {

using Resolve = decltype(berth_sim_resolve);

constexpr const char* kLibrary = "libberth_sim.so.0";

/// The folder of the shared library or program that contains this code, with a slash at its end;
/// empty if it is not known.
std::string own_folder() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<void*>(&open_simulator_library), &info) == 0) return {};
  const std::string file = info.dli_fname == nullptr ? "" : info.dli_fname;
  return file.substr(0, file.rfind('/') + 1);
}

DriverSource source_of(Resolve* resolve) {
  return {.name = "sim",
          .resolve = [resolve](const char* symbol, int) { return resolve(symbol); },
          .problem = {},
          .library = {}};
}

}  // namespace

DriverSource open_simulator_library() {
  if (&berth_sim_resolve != nullptr) return source_of(&berth_sim_resolve);
  DriverSource missing{.name = "sim", .resolve = {}, .problem = {}, .library = {}};
  std::vector<std::string> paths = {kLibrary};
  if (const std::string folder = own_folder(); !folder.empty()) {
    paths.insert(paths.begin(), folder + kLibrary);
  }
  for (const std::string& path : paths) {
    // Never closed, like every driver library: pointers into it are kept.
    void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      missing.problem += format_text("; {}", dlerror());
      continue;
    }
    if (auto* resolve = reinterpret_cast<Resolve*>(dlsym(library, "berth_sim_resolve"))) {
      return source_of(resolve);
    }
    missing.problem += format_text("; {} has no berth_sim_resolve", path);
  }
  missing.problem = format_text(
      "the simulated driver, {}, was not found beside libberth or by the "
      "loader{}",
      kLibrary, missing.problem);
  return missing;
}

}  // namespace berth
