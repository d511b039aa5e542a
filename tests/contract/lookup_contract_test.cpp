// SPDX-License-Identifier: Apache-2.0
// Source: CUDA Driver API, "Driver Entry Point Access", cuGetProcAddress.
#include "contract/lookup_contract.hpp"

namespace lookup_contract_test {

using namespace berth;
using namespace berth::test;

namespace {

/// What a search says: its result, what it found, and why.
struct Search {
  CUresult result = CUDA_ERROR_UNKNOWN;
  void* address = nullptr;
  CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SUCCESS;
};

Search search(Lookup* lookup, const char* symbol, int version,
              cuuint64_t flags = CU_GET_PROC_ADDRESS_LEGACY_STREAM) {
  Search found;
  found.address = &found;  // neither null nor a function
  found.result = lookup(symbol, &found.address, version, flags, &found.status);
  return found;
}

}  // namespace

// CU_GET_PROC_ADDRESS_SUCCESS: "The requested symbol was succesfully found based on input arguments
// and pfn is valid".
TEST_CASE("a function that is found belongs to the loaded driver") {
  Driver& driver = contract_driver();
  Lookup* lookup = find_lookup(driver);
  if (lookup == nullptr) return;
  const Search found = search(lookup, "cuDriverGetVersion", 2020);
  REQUIRE(found.result == CUDA_SUCCESS);
  REQUIRE(found.status == CU_GET_PROC_ADDRESS_SUCCESS);
  int version = 0;
  CHECK(reinterpret_cast<decltype(cuDriverGetVersion)*>(found.address)(&version) == CUDA_SUCCESS);
  CHECK(version == driver.version());
}

// cuGetProcAddress: "The API will return CUDA_SUCCESS and set the returned pfn to NULL ... if the
// driver symbol is invalid"; CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND.
TEST_CASE("a function that does not exist is not found, which is no error") {
  Lookup* lookup = find_lookup(contract_driver());
  if (lookup == nullptr) return;
  const Search found = search(lookup, "cuThereIsNoSuchFunction", 12000);
  CHECK(found.result == CUDA_SUCCESS);
  CHECK(found.address == nullptr);
  CHECK(found.status == CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
}

// CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT: "The requested symbol was found but is not supported
// by cudaVersion specified".
TEST_CASE("a function is not found for a CUDA version older than itself") {
  Lookup* lookup = find_lookup(contract_driver());
  if (lookup == nullptr) return;
  const Search found = search(lookup, "cuLaunchHostFunc", 9000);
  CHECK(found.result == CUDA_SUCCESS);
  CHECK(found.address == nullptr);
  CHECK(found.status == CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
}

// cuGetProcAddress: "If the specified CUDA version is greater than the driver version, the API will
// return CUDA_ERROR_INVALID_VALUE."
TEST_CASE("a search for a version later than the driver's is refused") {
  Driver& driver = contract_driver();
  Lookup* lookup = find_lookup(driver);
  if (lookup == nullptr) return;
  CHECK(search(lookup, "cuInit", driver.version()).result == CUDA_SUCCESS);
  CHECK(search(lookup, "cuInit", driver.version() + 1000).result == CUDA_ERROR_INVALID_VALUE);
}

// cuGetProcAddress: for a version "greater than or equal to the CUDA version in which the driver
// symbol was introduced", the function is found.
TEST_CASE("a function is found for its own version and later ones") {
  Lookup* lookup = find_lookup(contract_driver());
  if (lookup == nullptr) return;
  const Search first = search(lookup, "cuLaunchHostFunc", 10000);
  CHECK(first.status == CU_GET_PROC_ADDRESS_SUCCESS);
  CHECK(search(lookup, "cuLaunchHostFunc", 12000).address == first.address);
}

// cuGetProcAddress: "this API will return the function pointer to the corresponding versioned
// function".
TEST_CASE("the requested version selects the ABI of the function") {
  Lookup* lookup = find_lookup(contract_driver());
  if (lookup == nullptr) return;
  using Older = CUresult(const char*, void**, int, cuuint64_t);
  auto* older = find<Older>(lookup, "cuGetProcAddress", 11030, CU_GET_PROC_ADDRESS_DEFAULT);
  auto* newer = find<Lookup>(lookup, "cuGetProcAddress", 12000, CU_GET_PROC_ADDRESS_DEFAULT);
  REQUIRE((older != nullptr && newer != nullptr));
  CHECK(reinterpret_cast<void*>(older) != reinterpret_cast<void*>(newer));
  void* through_older = nullptr;
  CHECK(older("cuInit", &through_older, 2000, CU_GET_PROC_ADDRESS_DEFAULT) == CUDA_SUCCESS);
  CHECK(search(newer, "cuInit", 2000).address == through_older);
  CHECK(through_older != nullptr);
}

// CU_GET_PROC_ADDRESS_LEGACY_STREAM: all symbols "except the corresponding per-thread versions".
TEST_CASE_FIXTURE(ContractFixture, "the null stream of a legacy form is the legacy stream") {
  Lookup* lookup = find_lookup(driver);
  if (lookup == nullptr) return;
  auto* query = find<decltype(cuStreamQuery)>(lookup, "cuStreamQuery", 7000,
                                              CU_GET_PROC_ADDRESS_LEGACY_STREAM);
  REQUIRE((query != nullptr));
  Gate gate(driver, CU_STREAM_LEGACY);
  CHECK(query(nullptr) == CUDA_ERROR_NOT_READY);
  CHECK(query(CU_STREAM_PER_THREAD) == CUDA_SUCCESS);
  gate.open();
  CHECK(driver.try_stream_synchronize(CU_STREAM_LEGACY) == CUDA_SUCCESS);
}

// CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM: symbols "including the per-thread versions. If a
// per-thread version is not found, the API will return the legacy version".
TEST_CASE("only functions with a stream have a per-thread form") {
  Lookup* lookup = find_lookup(contract_driver());
  if (lookup == nullptr) return;
  constexpr cuuint64_t per_thread = CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
  for (const char* symbol : {"cuStreamQuery", "cuEventRecord", "cuMemcpyAsync"})
    CHECK_MESSAGE(
        search(lookup, symbol, 7000, per_thread).address != search(lookup, symbol, 7000).address,
        symbol);
  for (const char* symbol : {"cuInit", "cuEventQuery", "cuMemAlloc"})
    CHECK_MESSAGE(
        search(lookup, symbol, 7000, per_thread).address == search(lookup, symbol, 7000).address,
        symbol);
}

// cuGetProcAddress: CUDA_ERROR_INVALID_VALUE.
TEST_CASE("a search without a name or a result pointer is refused") {
  Lookup* lookup = find_lookup(contract_driver());
  if (lookup == nullptr) return;
  void* address = nullptr;
  constexpr cuuint64_t flags = CU_GET_PROC_ADDRESS_DEFAULT;
  CHECK(lookup(nullptr, &address, 12000, flags, nullptr) == CUDA_ERROR_INVALID_VALUE);
  CHECK(lookup("cuInit", nullptr, 12000, flags, nullptr) == CUDA_ERROR_INVALID_VALUE);
}

}  // namespace lookup_contract_test
