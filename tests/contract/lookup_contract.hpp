// SPDX-License-Identifier: Apache-2.0
// cuGetProcAddress of the driver under test, at the ABI of CUDA 12.
#pragma once

#include "contract/contract_driver.hpp"
#include "sim/functions.hpp"

namespace berth::test {

using Lookup = CUresult(const char*, void**, int, cuuint64_t, CUdriverProcAddressQueryResult*);

/// Null where the driver is older: the case is to end then.
inline Lookup* find_lookup(const Driver& driver) {
  if (driver.name() == "sim") return &sim::berth_sim_cuGetProcAddress_v2;
  auto* lookup = reinterpret_cast<Lookup*>(find_contract_function("cuGetProcAddress", 12000));
  if (lookup == nullptr) MESSAGE("skipped: needs the cuGetProcAddress of CUDA 12");
  return lookup;
}

template <class Function>
Function* find(Lookup* lookup, const char* symbol, int version, cuuint64_t flags) {
  void* address = nullptr;
  REQUIRE(lookup(symbol, &address, version, flags, nullptr) == CUDA_SUCCESS);
  return reinterpret_cast<Function*>(address);
}

}  // namespace berth::test
