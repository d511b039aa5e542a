// SPDX-License-Identifier: Apache-2.0
// Finds libberth_pjrt as the simulated driver is found: in the program itself, beside libberth, and
// where the loader searches.
#include "berth/pjrt.hpp"

#include <dlfcn.h>
#include <string>
#include <vector>

#include "berth/error.hpp"

#include "base/format.hpp"
#include "base/quoted.hpp"
#include "device/pjrt_library.hpp"

// Null unless the program contains libberth_pjrt or has linked it.
#pragma weak berth_pjrt_open

namespace berth {
namespace {

using Open = decltype(berth_pjrt_open);

constexpr const char* kLibrary = "libberth_pjrt.so.0";

/// The folder of the shared library or program that contains this code, with a slash at its end;
/// empty if it is not known.
std::string own_folder() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<void*>(&open_pjrt), &info) == 0) return {};
  const std::string file = info.dli_fname == nullptr ? "" : info.dli_fname;
  return file.substr(0, file.rfind('/') + 1);
}

Open* find_open() {
  if (&berth_pjrt_open != nullptr) return &berth_pjrt_open;
  std::string problem;
  std::vector<std::string> paths = {kLibrary};
  if (const std::string folder = own_folder(); !folder.empty())
    paths.insert(paths.begin(), folder + kLibrary);
  for (const std::string& path : paths) {
    // Never closed: backends come from it.
    void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      problem += format_text("; {}", on_one_line(dlerror()));
    } else if (auto* open = reinterpret_cast<Open*>(dlsym(library, "berth_pjrt_open"))) {
      return open;
    } else {
      problem += format_text("; {} has no berth_pjrt_open", path);
    }
  }
  throw NotSupported(
      format_text("PJRT plug-ins need the library {}, which was looked for beside libberth and "
                  "where the loader "
                  "searches{}",
                  kLibrary, problem));
}

std::unique_ptr<DeviceBackend> open(const PjrtPlugin& plugin, const char* topology) {
  static Open* const open_in_library = find_open();
  PjrtRequest request;
  request.plugin = &plugin;
  request.topology = topology;
  std::unique_ptr<DeviceBackend> backend(open_in_library(&request));
  if (backend == nullptr) std::rethrow_exception(request.failure);
  return backend;
}

}  // namespace

std::unique_ptr<DeviceBackend> open_pjrt(const PjrtPlugin& plugin) {
  return open(plugin, nullptr);
}

std::unique_ptr<DeviceBackend> open_pjrt_topology(const PjrtPlugin& plugin,
                                                  const std::string& topology) {
  return open(plugin, topology.c_str());
}

}  // namespace berth
