// SPDX-License-Identifier: Apache-2.0
// Finds libberth_pjrt as the simulated driver is found: in the program itself, beside libberth, and
// on the loader's search path.
#include "berth/pjrt.hpp"

#include <atomic>
#include <string>

#include "berth/error.hpp"

#include "base/format.hpp"
#include "device/pjrt_library.hpp"
#include "driver/own_library.hpp"

// Null unless the program contains libberth_pjrt or has linked it.
#pragma weak berth_pjrt_open

namespace berth {
namespace {

using Open = decltype(berth_pjrt_open);

constexpr const char* kLibrary = "libberth_pjrt.so.0";

Open* load_open() {
  if (&berth_pjrt_open != nullptr) return &berth_pjrt_open;
  std::string problem;
  if (void* const found = find_in_own_library(kLibrary, "berth_pjrt_open", problem))
    return reinterpret_cast<Open*>(found);
  throw NotSupported(
      format_text("PJRT plug-ins need the library {}, which was looked for beside libberth and "
                  "where the loader "
                  "searches{}",
                  kLibrary, problem));
}

/// Several threads may load the library, which the loader does once: no thread waits for another
/// one, which a forked child may lack.
Open* find_open() {
  static constinit std::atomic<Open*> loaded = nullptr;
  Open* open = loaded.load(std::memory_order_acquire);
  if (open != nullptr) return open;
  open = load_open();
  loaded.store(open, std::memory_order_release);
  return open;
}

std::unique_ptr<DeviceBackend> open(const PjrtPlugin& plugin, const char* topology) {
  Open* const open_in_library = find_open();
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
