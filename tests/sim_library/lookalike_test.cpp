// SPDX-License-Identifier: Apache-2.0
// The look-alikes of libcuda.so.1 and libnvidia-ml.so.1, as a loader meets them. Their simulator is
// that of libberth_sim, which this program links.
#include <string>
#include <type_traits>
#include <vector>

#include "sim/nvml/unsupported.hpp"
#include "sim/per_thread_functions.hpp"
#include "sim/sim_fixture.hpp"
#include "sim_library/open_lookalike.hpp"
#include "support/environment.hpp"

namespace lookalike_test {

using namespace berth;
using namespace berth::test;

TEST_CASE("the CUDA look-alike exports every simulated function by the names of its ABI") {
  void* library = open_lookalike("libcuda.so.1");
  if (library == nullptr) return;
  const auto exported = [&](const char* symbol) { return dlsym(library, symbol) != nullptr; };
  const auto plain = [&](const std::string& symbol) { return exported(symbol.c_str()); };
  const auto v2 = [&](const std::string& symbol) { return plain(symbol + "_v2"); };
  const auto v3 = [&](const std::string& symbol) { return plain(symbol + "_v3"); };
  const auto v4 = [&](const std::string& symbol) { return plain(symbol + "_v4"); };
  const auto both = [&](const std::string& symbol) {
    return plain(symbol + "_v2") && plain(symbol);
  };
  const auto newer = both;
#define BERTH_CHECK_EXPORTED(symbol, names, since) CHECK_MESSAGE(names(#symbol), #symbol);
  BERTH_SIM_FUNCTIONS(BERTH_CHECK_EXPORTED)
#undef BERTH_CHECK_EXPORTED
#define BERTH_CHECK_EXPORTED(symbol, name) CHECK_MESSAGE(exported(#name), #name);
  BERTH_SIM_PER_THREAD_FUNCTIONS(BERTH_CHECK_EXPORTED)
#undef BERTH_CHECK_EXPORTED
  CHECK(exported("cuGetProcAddress"));
  CHECK(exported("cuGetProcAddress_v2"));
}

TEST_CASE("a program that finds its driver by dlopen and cuGetProcAddress runs on the look-alike") {
  void* library = open_lookalike("libcuda.so.1");
  if (library == nullptr) return;
  const ScopedEnvironment config("BERTH_SIM", "devices=3,memory=1GiB,name=From the library");
  const ScopedEnvironment visible("CUDA_VISIBLE_DEVICES", "2,1");
  auto* lookup = find<decltype(CU(cuGetProcAddress_v2))>(library, "cuGetProcAddress_v2");
  REQUIRE((lookup != nullptr));
  const auto get = [&](const char* symbol, auto& function) {
    void* address = nullptr;
    CHECK(lookup(symbol, &address, 12000, 0, nullptr) == CUDA_SUCCESS);
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(address);
    REQUIRE((function != nullptr));
  };
  decltype(&CU(cuInit)) init = nullptr;
  decltype(&CU(cuDeviceGetCount)) count = nullptr;
  decltype(&CU(cuDeviceGetName)) name = nullptr;
  decltype(&CU(cuDevicePrimaryCtxRetain)) retain_context = nullptr;
  decltype(&CU(cuCtxPushCurrent)) push = nullptr;
  decltype(&CU(cuMemAlloc)) allocate = nullptr;
  decltype(&CU(cuMemsetD8Async)) fill = nullptr;
  decltype(&CU(cuMemcpyAsync)) copy = nullptr;
  decltype(&CU(cuMemAddressReserve)) reserve = nullptr;
  get("cuInit", init);
  get("cuDeviceGetCount", count);
  get("cuDeviceGetName", name);
  get("cuDevicePrimaryCtxRetain", retain_context);
  get("cuCtxPushCurrent", push);
  get("cuMemAlloc", allocate);
  get("cuMemsetD8Async", fill);
  get("cuMemcpyAsync", copy);
  get("cuMemAddressReserve", reserve);

  CHECK(init(0) == CUDA_SUCCESS);
  int devices = 0;
  CHECK(count(&devices) == CUDA_SUCCESS);
  CHECK(devices == 2);
  char text[64];
  CHECK(name(text, sizeof(text), 0) == CUDA_SUCCESS);
  CHECK(std::string(text) == "From the library");
  CUcontext context = nullptr;
  CHECK(retain_context(&context, 0) == CUDA_SUCCESS);
  CHECK(push(context) == CUDA_SUCCESS);
  CUdeviceptr memory = 0;
  CHECK(allocate(&memory, 1000) == CUDA_SUCCESS);
  CHECK(fill(memory, 77, 1000, nullptr) == CUDA_SUCCESS);
  std::vector<unsigned char> host(1000);
  CHECK(copy(address_of(host.data()), memory, 1000, nullptr) == CUDA_SUCCESS);
  CHECK(host == bytes_of(1000, 77));
  // Five arguments and a null result pointer, to see that the jump keeps all of them.
  CHECK(reserve(nullptr, 4096, 0, 0, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(reserve(&memory, 4096, 0, 0, 1) == CUDA_ERROR_INVALID_VALUE);
  CHECK(reserve(&memory, 4096, 0, 0, 0) == CUDA_SUCCESS);
}

TEST_CASE("the NVML look-alike exports every simulated function, and older names") {
  void* library = open_lookalike("libnvidia-ml.so.1");
  if (library == nullptr) return;
  const auto exported = [&](const char* symbol) { return dlsym(library, symbol) != nullptr; };
#define BERTH_CHECK_EXPORTED(member, symbol, type, need) CHECK_MESSAGE(exported(#symbol), #symbol);
  BERTH_NVML_FUNCTIONS(BERTH_CHECK_EXPORTED)
#undef BERTH_CHECK_EXPORTED
#define BERTH_CHECK_EXPORTED(symbol, other)  \
  CHECK_MESSAGE(exported(#symbol), #symbol); \
  CHECK_MESSAGE(berth_sim_resolve(#symbol) != nullptr, #symbol);
  BERTH_SIM_NVML_FUNCTIONS(BERTH_CHECK_EXPORTED)
  BERTH_SIM_NVML_OLDER_NAMES(BERTH_CHECK_EXPORTED)
#undef BERTH_CHECK_EXPORTED
#define BERTH_CHECK_EXPORTED(symbol) CHECK_MESSAGE(exported(#symbol), #symbol);
  BERTH_SIM_NVML_UNSUPPORTED(BERTH_CHECK_EXPORTED)
#undef BERTH_CHECK_EXPORTED
  CHECK(exported("nvmlErrorString"));
  CHECK_FALSE(exported("nvmlNoSuch"));
}

// The configuration is that of the test that opened the other look-alike first, if one did.
TEST_CASE("memory allocated through one look-alike is usable in the other") {
  void* cuda = open_lookalike("libcuda.so.1");
  void* nvml = open_lookalike("libnvidia-ml.so.1");
  if (cuda == nullptr || nvml == nullptr) return;
  const ScopedEnvironment config("BERTH_SIM", "devices=3,memory=1GiB,name=From the library");
  const ScopedEnvironment visible("CUDA_VISIBLE_DEVICES", "2,1");
  const auto cuda_call = [&]<class... Arguments>(const char* symbol, Arguments... arguments) {
    auto* function = find<CUresult(Arguments...)>(cuda, symbol);
    REQUIRE((function != nullptr));
    REQUIRE(function(arguments...) == CUDA_SUCCESS);
  };
  const auto nvml_call = [&]<class... Arguments>(const char* symbol, Arguments... arguments) {
    auto* function = find<nvml::Return(Arguments...)>(nvml, symbol);
    REQUIRE((function != nullptr));
    REQUIRE(function(arguments...) == nvml::kSuccess);
  };
  nvml_call("nvmlInit_v2");
  unsigned count = 0;
  nvml_call("nvmlDeviceGetCount", &count);
  CHECK(count == 3);
  nvml::Device last = nullptr;
  nvml_call("nvmlDeviceGetHandleByIndex_v2", 2U, &last);
  nvml::Memory before{};
  nvml_call("nvmlDeviceGetMemoryInfo", last, &before);

  CUcontext context = nullptr;
  CUdeviceptr memory = 0;
  cuda_call("cuInit", 0U);
  cuda_call("cuDevicePrimaryCtxRetain", &context, 0);
  cuda_call("cuCtxSetCurrent", context);
  cuda_call("cuMemAlloc_v2", &memory, std::size_t{64 << 20});
  nvml::Memory after{};
  nvml_call("nvmlDeviceGetMemoryInfo", last, &after);
  CHECK(after.used == before.used + (64 << 20));
  cuda_call("cuMemFree_v2", memory);
  nvml_call("nvmlDeviceGetMemoryInfo", last, &after);
  CHECK(after.used == before.used);
}

TEST_CASE("a per-thread form of the look-alike keeps all arguments") {
  void* cuda = open_lookalike("libcuda.so.1");
  if (cuda == nullptr) return;
  auto* peer_copy = find<decltype(CU(cuMemcpyPeerAsync))>(cuda, "cuMemcpyPeerAsync_ptsz");
  auto* init = find<decltype(CU(cuInit))>(cuda, "cuInit");
  auto* retain_context =
      find<decltype(CU(cuDevicePrimaryCtxRetain))>(cuda, "cuDevicePrimaryCtxRetain");
  auto* set_current = find<decltype(CU(cuCtxSetCurrent))>(cuda, "cuCtxSetCurrent");
  REQUIRE((peer_copy != nullptr && init != nullptr && retain_context != nullptr &&
           set_current != nullptr));
  OK(init(0));
  CUcontext context = nullptr;
  OK(retain_context(&context, 0));
  OK(set_current(context));
  // Each in turn is what is wrong; the last is the sixth.
  CHECK(peer_copy(1, nullptr, 1, context, 0, nullptr) == CUDA_ERROR_INVALID_CONTEXT);
  CHECK(peer_copy(1, context, 1, nullptr, 0, nullptr) == CUDA_ERROR_INVALID_CONTEXT);
  CHECK(peer_copy(1, context, 1, context, 1, nullptr) == CUDA_ERROR_INVALID_VALUE);
  CHECK(peer_copy(1, context, 1, context, 0, nullptr) == CUDA_SUCCESS);
  CHECK(peer_copy(1, context, 1, context, 0, reinterpret_cast<CUstream>(context)) ==
        CUDA_ERROR_INVALID_HANDLE);
}

}  // namespace lookalike_test
