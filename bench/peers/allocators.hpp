// SPDX-License-Identifier: Apache-2.0
// berth and its peers, for benchmarks that run the same workload on each.
#pragma once

#include <string>
#include <type_traits>

#include "peers/berth_allocator.hpp"
#include "peers/driver_allocator.hpp"
#include "peers/loaded_peer.hpp"
#include "support/benchmarks.hpp"

#ifdef BERTH_BENCH_CUB
#include "peers/cub_allocator.hpp"
#endif

namespace berth::bench {

/// Reports the missing peers, with the reasons.
inline void leave_out_missing_peers() {
#ifndef BERTH_BENCH_CUB
  leave_out("cub", "built without its headers (-Dcccl_include=DIR)");
#endif
  const std::string& rmm = RmmPool::module().problem();
  const std::string& torch = Torch::module().problem();
  if (!rmm.empty() && rmm == torch) return leave_out("rmm_pool and torch", rmm.c_str());
  if (!rmm.empty()) leave_out("rmm_pool", rmm.c_str());
  if (!torch.empty()) leave_out("torch", torch.c_str());
}

/// Calls `visit(std::type_identity<Allocator>())` for berth and each available peer.
template <class Visit>
void for_each_allocator(Visit visit) {
  visit(std::type_identity<BerthAllocator>());
  visit(std::type_identity<DriverAllocator>());
#ifdef BERTH_BENCH_CUB
  visit(std::type_identity<CubAllocator>());
  visit(std::type_identity<CubWithoutDriver>());
#endif
  if (RmmPool::module().usable()) visit(std::type_identity<RmmPool>());
  if (Torch::module().usable()) visit(std::type_identity<Torch>());
}

}  // namespace berth::bench
