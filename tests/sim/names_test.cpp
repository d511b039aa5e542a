// SPDX-License-Identifier: Apache-2.0
#include <cstring>
#include <string>

#include "driver/driver_functions.hpp"
#include "driver/driver_source.hpp"
#include "sim/reported_functions.hpp"
#include "sim/sim_fixture.hpp"
#include "support/environment.hpp"

namespace names_test {

using namespace berth;
using namespace berth::test;

TEST_CASE("every driver function that berth uses is simulated") {
  const auto is_simulated = [](const char* symbol) { return sim::resolve(symbol) != nullptr; };
#define BERTH_CHECK_SIMULATED(member, symbol, version, need) \
  CHECK_MESSAGE(is_simulated(#symbol), #symbol);
  BERTH_DRIVER_FUNCTIONS(BERTH_CHECK_SIMULATED)
#undef BERTH_CHECK_SIMULATED
#define BERTH_CHECK_SIMULATED(member, symbol, type, need) \
  CHECK_MESSAGE(is_simulated(#symbol), #symbol);
  BERTH_NVML_FUNCTIONS(BERTH_CHECK_SIMULATED)
#undef BERTH_CHECK_SIMULATED
}

TEST_CASE("every driver function that berth uses is found at the version that berth asks for") {
  const auto find = [](const char* symbol, int version) {
    void* address = nullptr;
    CU(cuGetProcAddress_v2)(symbol, &address, version, 0, nullptr);
    return address;
  };
#define BERTH_CHECK_FOUND(member, symbol, version, need) \
  CHECK_MESSAGE(find(#symbol, version) == sim::resolve(#symbol), #symbol);
  BERTH_DRIVER_FUNCTIONS(BERTH_CHECK_FOUND)
#undef BERTH_CHECK_FOUND
}

TEST_CASE("a Runtime resolves the same functions as cuGetProcAddress, for every driver version") {
  for (const int version : {11040, 12020, 12050, 12080, 13000}) {
    CAPTURE(version);
    const sim::Simulator sim("driver_version=" + std::to_string(version));
    const DriverSource source = open_simulator_library();
    const auto compare = [&](const char* symbol, int since) {
      void* address = nullptr;
      if (since <= version) OK(CU(cuGetProcAddress_v2)(symbol, &address, since, 0, nullptr));
      CHECK_MESSAGE(source.resolve(symbol, since) == address, symbol);
    };
#define BERTH_COMPARE(member, symbol, since, need) compare(#symbol, since);
    BERTH_DRIVER_FUNCTIONS(BERTH_COMPARE)
#undef BERTH_COMPARE
    CHECK(source.resolve("cuStreamGetCaptureInfo", 12030) ==
          source.resolve("cuStreamGetCaptureInfo_v3", 12030));
    CHECK((source.resolve("cuMemcpyBatchAsync", 13000) != nullptr) == (version >= 13000));
    CHECK((source.resolve("cuStreamGetCaptureInfo", 12030) != nullptr) == (version >= 12030));
    CHECK(source.resolve("berthSimHostObserves", 2000) != nullptr);
  }
}

TEST_CASE("without a simulator, BERTH_SIM determines the available functions") {
  { const sim::Simulator replaces(""); }
  const auto version = [] {
    int value = 0;
    OK(CU(cuDriverGetVersion)(&value));
    return value;
  };
  {
    const ScopedEnvironment environment("BERTH_SIM", "driver_version=12020");
    CHECK(version() == 12020);
    CHECK(sim::resolve("cuMemcpyBatchAsync") == nullptr);
    CHECK(sim::resolve("cuMemCreate") != nullptr);
  }
  const ScopedEnvironment malformed("BERTH_SIM", "driver_version=new");
  CHECK(version() == 13000);
  CHECK(sim::resolve("cuMemcpyBatchAsync") != nullptr);
}

TEST_CASE("a function is resolved by its plain and by its versioned name") {
  CHECK(sim::resolve("cuMemAlloc") == reinterpret_cast<void*>(sim::berth_sim_reported_cuMemAlloc));
  CHECK(sim::resolve("cuMemAlloc_v2") == sim::resolve("cuMemAlloc"));
  CHECK(sim::resolve("cuGetProcAddress") != sim::resolve("cuGetProcAddress_v2"));
  CHECK(sim::resolve("cuGetProcAddress") != nullptr);
}

TEST_CASE("functions that are not simulated resolve to null") {
  for (const char* symbol : {"", "cu", "cuMemAlloc_v3", "cuInit_v2", "cuLaunchKernel_v2", "malloc"})
    CHECK_MESSAGE(sim::resolve(symbol) == nullptr, symbol);
  CHECK(sim::resolve(nullptr) == nullptr);
}

TEST_CASE("cuGetProcAddress reports why there is no address") {
  const sim::Simulator sim("driver_version=12020");
  void* address = &address;
  CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SUCCESS;
  CHECK(CU(cuGetProcAddress_v2)("cuNoSuch", &address, 12000, 0, &status) == CUDA_SUCCESS);
  CHECK(address == nullptr);
  CHECK(status == CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
  CHECK(CU(cuGetProcAddress_v2)("cuMemCreate", &address, 10010, 0, &status) == CUDA_SUCCESS);
  CHECK(address == nullptr);
  CHECK(status == CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
  CHECK(CU(cuGetProcAddress_v2)("cuMemCreate", &address, 10020, 0, &status) == CUDA_SUCCESS);
  CHECK(address != nullptr);
  CHECK(status == CU_GET_PROC_ADDRESS_SUCCESS);
  CHECK(CU(cuGetProcAddress_v2)("cuMemCreate", &address, 12020, 0, nullptr) == CUDA_SUCCESS);
  CHECK(CU(cuGetProcAddress_v2)("cuMemCreate", &address, 12030, 0, nullptr) ==
        CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("cuGetProcAddress resolves to its newer version from CUDA 12 on") {
  void* address = nullptr;
  CHECK(CU(cuGetProcAddress)("cuGetProcAddress", &address, 11030, 0) == CUDA_SUCCESS);
  CHECK(address == reinterpret_cast<void*>(&CU(cuGetProcAddress)));
  CHECK(CU(cuGetProcAddress)("cuGetProcAddress", &address, 12000, 0) == CUDA_SUCCESS);
  CHECK(address == reinterpret_cast<void*>(&CU(cuGetProcAddress_v2)));
  CHECK(CU(cuGetProcAddress)("cuNoSuch", &address, 12000, 0) == CUDA_ERROR_NOT_FOUND);
}

TEST_CASE("cuGetProcAddress refuses invalid arguments") {
  void* address = nullptr;
  CHECK(CU(cuGetProcAddress_v2)(nullptr, &address, 12000, 0, nullptr) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuGetProcAddress_v2)("cuInit", nullptr, 12000, 0, nullptr) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuGetProcAddress_v2)("cuInit", &address, 12000, 9, nullptr) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("private tables of the driver are refused") {
  const void* table = &table;
  const CUuuid id{};
  CHECK(CU(cuGetExportTable)(&table, &id) == CUDA_ERROR_NOT_FOUND);
  CHECK(CU(cuGetExportTable)(nullptr, &id) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuGetExportTable)(&table, nullptr) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("codes that the simulator returns have a name and a description") {
  for (const CUresult code :
       {CUDA_SUCCESS, CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_OUT_OF_MEMORY,
        CUDA_ERROR_NOT_INITIALIZED, CUDA_ERROR_NO_DEVICE, CUDA_ERROR_INVALID_DEVICE,
        CUDA_ERROR_INVALID_CONTEXT, CUDA_ERROR_INVALID_HANDLE, CUDA_ERROR_NOT_FOUND,
        CUDA_ERROR_NOT_READY, CUDA_ERROR_ILLEGAL_ADDRESS, CUDA_ERROR_CONTEXT_IS_DESTROYED,
        CUDA_ERROR_PEER_ACCESS_UNSUPPORTED, CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED,
        CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED,
        CUDA_ERROR_NOT_PERMITTED, CUDA_ERROR_NOT_SUPPORTED}) {
    CAPTURE(code);
    const char* text = nullptr;
    CHECK(CU(cuGetErrorName)(code, &text) == CUDA_SUCCESS);
    CHECK(std::string(text).starts_with("CUDA_"));
    CHECK(CU(cuGetErrorString)(code, &text) == CUDA_SUCCESS);
    CHECK(std::strlen(text) > 0);
  }
}

TEST_CASE("an unknown code has no name") {
  const char* text = "";
  CHECK(CU(cuGetErrorName)(static_cast<CUresult>(1000), &text) == CUDA_ERROR_INVALID_VALUE);
  CHECK(text == nullptr);
  text = "";
  CHECK(CU(cuGetErrorString)(static_cast<CUresult>(1000), &text) == CUDA_ERROR_INVALID_VALUE);
  CHECK(text == nullptr);
  CHECK(CU(cuGetErrorName)(CUDA_SUCCESS, nullptr) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuGetErrorString)(CUDA_SUCCESS, nullptr) == CUDA_ERROR_INVALID_VALUE);
}

}  // namespace names_test
