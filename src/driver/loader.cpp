// SPDX-License-Identifier: Apache-2.0
// Loading by dlopen and cuGetProcAddress.
// Source: CUDA Driver API, "Driver Entry Point Access".
#include <dlfcn.h>

#include "base/format.hpp"
#include "base/quoted.hpp"
#include "driver/driver_functions.hpp"
#include "driver/driver_source.hpp"

namespace berth {
namespace {

// cuda.h renames these functions by macro and by version, so their types are written out.
using GetProcAddressV1 = CUresult(const char*, void**, int, cuuint64_t);
using GetProcAddressV2 = CUresult(const char*, void**, int, cuuint64_t,
                                  CUdriverProcAddressQueryResult*);

std::shared_ptr<void> open_library(const std::string& path, std::string& problem) {
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    problem = on_one_line(dlerror());
    return nullptr;
  }
  // Never closed, because driver libraries have threads and exit handlers that outlive any user.
  return {handle, [](void*) {}};
}

template <class Function>
Function* find(void* library, const char* symbol) {
  return reinterpret_cast<Function*>(dlsym(library, symbol));
}

}  // namespace

DriverSource open_driver_library(const std::string& name, const std::string& path) {
  DriverSource source{.name = name, .resolve = {}, .problem = {}, .library = {}};
  source.library = open_library(path, source.problem);
  if (!source.library) return source;

  void* library = source.library.get();
  constexpr cuuint64_t flags = CU_GET_PROC_ADDRESS_LEGACY_STREAM;
  if (auto* lookup = find<GetProcAddressV2>(library, "cuGetProcAddress_v2")) {
    source.resolve = [lookup](const char* symbol, int version) {
      void* address = nullptr;
      const CUresult result = lookup(symbol, &address, version, flags, nullptr);
      return result == CUDA_SUCCESS ? address : nullptr;
    };
  } else if (auto* older = find<GetProcAddressV1>(library, "cuGetProcAddress")) {
    source.resolve = [older](const char* symbol, int version) {
      void* address = nullptr;
      const CUresult result = older(symbol, &address, version, flags);
      return result == CUDA_SUCCESS ? address : nullptr;
    };
  } else {
    source.problem = format_text(
        "{} is no CUDA driver that berth can use: it lacks cuGetProcAddress (CUDA 11.3 or newer)",
        on_one_line(path));
  }
  return source;
}

DriverSource open_nvml_library(const std::string& path) {
  DriverSource source{.name = path, .resolve = {}, .problem = {}, .library = {}};
  source.library = open_library(path, source.problem);
  if (!source.library) return source;
  source.resolve = [library = source.library.get()](const char* symbol, int) {
    return dlsym(library, symbol);
  };
  return source;
}

}  // namespace berth
