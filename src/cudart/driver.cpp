// SPDX-License-Identifier: Apache-2.0
#include "cudart/driver.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <dlfcn.h>

#include "base/mutex.hpp"
#include "cudart/notices.hpp"

namespace berth::cudart {
namespace {

enum Index : std::size_t {
#define BERTH_CUDART_INDEX(symbol, since) k_##symbol,
  BERTH_CUDART_DRIVER_FUNCTIONS(BERTH_CUDART_INDEX)
#undef BERTH_CUDART_INDEX
      kFunctions
};

constexpr std::array<const char*, kFunctions> kNames = {
#define BERTH_CUDART_NAME(symbol, since) #symbol,
    BERTH_CUDART_DRIVER_FUNCTIONS(BERTH_CUDART_NAME)
#undef BERTH_CUDART_NAME
};

/// Replaces a function that the driver lacks.
template <std::size_t index, class Function>
struct Missing;

template <std::size_t index, class... Arguments>
struct Missing<index, CUresult(Arguments...)> {
  static CUresult call(Arguments...) {
    static std::atomic<bool> named = false;
    notice_once(named, "the driver has no {}: the call fails with cudaErrorNotSupported",
                kNames[index]);
    return CUDA_ERROR_NOT_SUPPORTED;
  }
};

/// The version that introduced the forms for the per-thread default stream. No listed function has
/// changed between its own version and this one, if its own is older.
constexpr int kPerThreadFormsSince = 7000;

template <class Function>
Function* find(const LoadedDriver& driver, const char* symbol, int since, unsigned flags) {
  void* address = nullptr;
  CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  const CUresult result = driver.get_proc_address(symbol, &address, since, flags, &status);
  const bool is_found = result == CUDA_SUCCESS && status == CU_GET_PROC_ADDRESS_SUCCESS;
  return is_found ? reinterpret_cast<Function*>(address) : nullptr;
}

Driver functions_of(const LoadedDriver& driver, unsigned flags) {
  Driver functions{};
  const auto asked = [&](int since) {
    const bool per_thread = flags == CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
    return per_thread ? std::max(since, kPerThreadFormsSince) : since;
  };
#define BERTH_CUDART_FIND(symbol, since)                                             \
  functions.symbol = find<decltype(::symbol)>(driver, #symbol, asked(since), flags); \
  if (functions.symbol == nullptr)                                                   \
    functions.symbol = &Missing<k_##symbol, decltype(::symbol)>::call;
  BERTH_CUDART_DRIVER_FUNCTIONS(BERTH_CUDART_FIND)
#undef BERTH_CUDART_FIND
  return functions;
}

template <class Function>
Function* find_exported(void* library, const char* symbol) {
  return reinterpret_cast<Function*>(dlsym(library, symbol));
}

LoadedDriver* load() {
  void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return nullptr;
  const auto get_version =
      find_exported<decltype(::cuDriverGetVersion)>(library, "cuDriverGetVersion");
  const auto get_proc_address =
      find_exported<decltype(::cuGetProcAddress)>(library, "cuGetProcAddress_v2");
  int version = 0;
  if (get_version == nullptr || get_proc_address == nullptr) return nullptr;
  if (get_version(&version) != CUDA_SUCCESS) return nullptr;
  auto* driver = new LoadedDriver;
  driver->version = version;
  driver->get_proc_address = get_proc_address;
  driver->legacy = functions_of(*driver, CU_GET_PROC_ADDRESS_LEGACY_STREAM);
  driver->per_thread = functions_of(*driver, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM);
  driver->kernel_by_name = find<sim_abi::KernelByName>(*driver, "berthSimKernelByName", version, 0);
  driver->current_context =
      find<sim_abi::CurrentContext>(*driver, "berthSimCurrentContext", version, 0);
  return driver;
}

}  // namespace

const LoadedDriver* load_driver() {
  static Mutex mutex;
  const MutexLock lock(mutex);
  const LoadedDriver* driver = driver_in_use.load(std::memory_order_relaxed);
  if (driver == nullptr) driver_in_use.store(driver = load(), std::memory_order_release);
  return driver;
}

}  // namespace berth::cudart
