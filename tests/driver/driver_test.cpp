// SPDX-License-Identifier: Apache-2.0
// The driver seam over hand-made sources: no simulator, no hardware.
#include "driver/driver.hpp"

#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include <doctest/doctest.h>

namespace driver_test {

using namespace berth;

namespace {

CUresult succeed() {
  return CUDA_SUCCESS;
}
CUresult fail_init(unsigned) {
  return CUDA_ERROR_NO_DEVICE;
}
CUresult fail_free(CUdeviceptr) {
  return CUDA_ERROR_INVALID_VALUE;
}
CUresult gone_free(CUdeviceptr) {
  return CUDA_ERROR_DEINITIALIZED;
}
CUresult name_error(CUresult, const char** name) {
  *name = "CUDA_ERROR_EXAMPLE";
  return CUDA_SUCCESS;
}
CUresult say_version(int* version) {
  *version = 12040;
  return CUDA_SUCCESS;
}

/// A driver whose functions all succeed without doing anything, but for those replaced by name.
DriverSource source_with(std::vector<std::pair<std::string, void*>> replaced) {
  return {.name = "hand-made",
          .resolve = [replaced](const char* symbol, int) -> void* {
            for (const auto& [name, function] : replaced) {
              if (name == symbol) return function;
            }
            if (std::strcmp(symbol, "cuGetErrorName") == 0) {
              return reinterpret_cast<void*>(&name_error);
            }
            if (std::strcmp(symbol, "cuDriverGetVersion") == 0) {
              return reinterpret_cast<void*>(&say_version);
            }
            return reinterpret_cast<void*>(&succeed);
          },
          .problem = {},
          .library = {}};
}

}  // namespace

TEST_CASE("a complete driver is usable and counts each call by function") {
  const Driver driver(source_with({}), {});
  REQUIRE(driver.usable());
  CHECK(driver.version() == 12040);
  driver.mem_free(CUdeviceptr{1});
  driver.mem_free(CUdeviceptr{1});
  CHECK(driver.calls()[std::size_t(DriverCall::mem_free)] == 2);
  CHECK(driver.calls()[std::size_t(DriverCall::mem_alloc)] == 0);
}

TEST_CASE(
    "a source that could not be opened yields a driver that reports the reason and rejects calls") {
  const Driver driver({.name = "cuda", .resolve = {}, .problem = "libcuda.so.1: no", .library = {}},
                      {});
  CHECK_FALSE(driver.usable());
  CHECK(driver.problem() == "libcuda.so.1: no");
  CHECK(driver.try_mem_free(CUdeviceptr{1}) == CUDA_ERROR_NOT_INITIALIZED);
  CHECK(driver.calls()[std::size_t(DriverCall::mem_free)] == 0);
}

TEST_CASE("a driver without a required function is refused by the name of the function") {
  const Driver driver(source_with({{"cuStreamQuery", nullptr}}), {});
  CHECK_FALSE(driver.usable());
  CHECK(driver.problem().find("cuStreamQuery") != std::string::npos);
}

TEST_CASE("a driver without an optional function is usable and answers not supported for it") {
  const Driver driver(source_with({{"cuMemMap", nullptr}}), {});
  REQUIRE(driver.usable());
  CHECK_FALSE(driver.has(DriverCall::mem_map));
  CHECK(driver.has(DriverCall::mem_unmap));
  CHECK(driver.try_mem_map(CUdeviceptr{0}, std::size_t{0}, std::size_t{0},
                           CUmemGenericAllocationHandle{0}, 0ull) == CUDA_ERROR_NOT_SUPPORTED);
}

TEST_CASE("a driver on hardware receives no observations of the host") {
  static int told;
  told = 0;
  using namespace sim_abi;
  constexpr HostObserves* note = [](const void*, std::uint64_t value) { told = int(value); };
  const Driver hardware(source_with({{"berthSimHostObserves", nullptr}}), {});
  hardware.sim_host_observes(&told, 5);
  CHECK(hardware.usable());
  CHECK(told == 0);
  const Driver simulated(source_with({{"berthSimHostObserves", reinterpret_cast<void*>(note)}}),
                         {});
  simulated.sim_host_observes(&told, 5);
  CHECK(told == 5);
}

TEST_CASE("a failing cuInit leaves no usable driver and names the code") {
  const Driver driver(source_with({{"cuInit", reinterpret_cast<void*>(&fail_init)}}), {});
  CHECK_FALSE(driver.usable());
  CHECK(driver.problem().find("CUDA_ERROR_EXAMPLE (100)") != std::string::npos);
}

TEST_CASE("a failing call throws an error that names the function and the code") {
  const Driver driver(source_with({{"cuMemFree", reinterpret_cast<void*>(&fail_free)}}), {});
  try {
    driver.mem_free(CUdeviceptr{1});
    FAIL("nothing was thrown");
  } catch (const DriverError& error) {
    CHECK(error.driver_code() == CUDA_ERROR_INVALID_VALUE);
    CHECK(std::string(error.what()).find("cuMemFree failed: CUDA_ERROR_EXAMPLE (1)") == 0);
  }
}

TEST_CASE("a failure in a destructor is reported, and silent once the driver has shut down") {
  std::vector<std::string> reports;
  const auto sink = [&](const Report& report) { reports.push_back(report.message); };
  const Driver failing(source_with({{"cuMemFree", reinterpret_cast<void*>(&fail_free)}}), sink);
  failing.mem_free_or_report(CUdeviceptr{1});
  REQUIRE(reports.size() == 1);
  CHECK(reports[0].find("cuMemFree") != std::string::npos);

  const Driver gone(source_with({{"cuMemFree", reinterpret_cast<void*>(&gone_free)}}), sink);
  gone.mem_free_or_report(CUdeviceptr{1});
  CHECK(reports.size() == 1);
}

TEST_CASE("an exception of the report sink is swallowed") {
  const Driver driver(source_with({}), [](const Report&) { throw std::runtime_error("sink"); });
  driver.report(Severity::warning, "x");
  CHECK(driver.usable());
}

}  // namespace driver_test
