// SPDX-License-Identifier: Apache-2.0
// Functions of libcuda.so.1 that are not simulated.
#include <string>

#include "sim/reported_functions.hpp"
#include "sim/sim_fixture.hpp"
#include "sim/unsupported_functions.hpp"
#include "sim_library/open_lookalike.hpp"
#include "support/captured_standard_error.hpp"

namespace unsupported_function_test {

using namespace berth;
using namespace berth::test;

namespace {

struct Found {
  void* address = nullptr;
  CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SUCCESS;
};

Found find_driver_function(const char* symbol, int version, cuuint64_t flags = 0) {
  Found found;
  OK(CU(cuGetProcAddress_v2)(symbol, &found.address, version, flags, &found.status));
  return found;
}

template <class Function>
void* pointer_to(Function* function) {
  return reinterpret_cast<void*>(function);
}

}  // namespace

TEST_CASE("an unsupported function fails on each call, and is named on the first one") {
  void* library = open_lookalike("libcuda.so.1");
  if (library == nullptr) return;
  const sim::Simulator sim("");
  const auto calls = [&](const char* symbol) {
    auto* function = find<CUresult()>(library, symbol);
    CHECK_MESSAGE((function != nullptr), symbol);
    if (function == nullptr) return;
    const std::string first =
        standard_error_of([&] { CHECK_MESSAGE(function() == CUDA_ERROR_NOT_SUPPORTED, symbol); });
    CHECK(first == "simulated driver: " + std::string(symbol) +
                       " is not supported: it fails with CUDA_ERROR_NOT_SUPPORTED\n");
    const std::string second =
        standard_error_of([&] { CHECK_MESSAGE(function() == CUDA_ERROR_NOT_SUPPORTED, symbol); });
    CHECK(second.empty());
  };
#define BERTH_CHECK_CALLS(symbol, since) calls(#symbol);
  BERTH_SIM_UNSUPPORTED(BERTH_CHECK_CALLS)
#undef BERTH_CHECK_CALLS
}

TEST_CASE("an unsupported function is found by name in drivers that have it") {
  const sim::Simulator sim("driver_version=12040");
  CHECK(find_driver_function("cuArrayDestroy", 12000).address ==
        pointer_to(&sim::berth_sim_unsupported_cuArrayDestroy));
  CHECK(find_driver_function("cuGreenCtxCreate", 12030).status ==
        CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
  CHECK(find_driver_function("cuGreenCtxCreate", 12040).address ==
        pointer_to(&sim::berth_sim_unsupported_cuGreenCtxCreate));
  const Found newer = find_driver_function("cuCheckpointProcessLock", 12040);
  CHECK(newer.address == nullptr);
  CHECK(newer.status == CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
  CHECK(berth_sim_resolve("cuArrayDestroy") == nullptr);
}

TEST_CASE("a requested version selects among the ABIs, simulated or not") {
  const sim::Simulator sim("");
  const auto found = [](const char* symbol, int version, cuuint64_t flags = 0) {
    return find_driver_function(symbol, version, flags).address;
  };
  CHECK(found("cuArrayCreate", 3010) == pointer_to(&sim::berth_sim_unsupported_cuArrayCreate));
  CHECK(found("cuArrayCreate", 3020) == pointer_to(&sim::berth_sim_unsupported_cuArrayCreate_v2));
  CHECK(found("cuStreamGetCaptureInfo", 10010) ==
        pointer_to(&sim::berth_sim_unsupported_cuStreamGetCaptureInfo));
  CHECK(found("cuStreamGetCaptureInfo", 12020) ==
        pointer_to(&sim::berth_sim_unsupported_cuStreamGetCaptureInfo_v2));
  CHECK(found("cuStreamGetCaptureInfo", 12030) ==
        pointer_to(sim::berth_sim_reported_cuStreamGetCaptureInfo));
  constexpr cuuint64_t per_thread = CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
  CHECK(found("cuStreamGetCaptureInfo", 12020, per_thread) ==
        pointer_to(&sim::berth_sim_unsupported_cuStreamGetCaptureInfo_v2_ptsz));
  CHECK(found("cuMemcpyHtoA", 7000, per_thread) ==
        pointer_to(&sim::berth_sim_unsupported_cuMemcpyHtoA_v2_ptds));
  CHECK(found("cuMemcpyHtoA", 7000) == pointer_to(&sim::berth_sim_unsupported_cuMemcpyHtoA_v2));
  CHECK(found("cuArrayDestroy", 7000, per_thread) ==
        pointer_to(&sim::berth_sim_unsupported_cuArrayDestroy));
}

}  // namespace unsupported_function_test
