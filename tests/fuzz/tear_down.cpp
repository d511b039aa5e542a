// SPDX-License-Identifier: Apache-2.0
#include "fuzz/tear_down.hpp"

#include <algorithm>

#include <fmt/core.h>

#include "base/check.hpp"
#include "fuzz/turn.hpp"

namespace berth::fuzz {
namespace {

/// So often that a fault by chance has passed.
constexpr int kTries = 64;

bool refuses_for_good(const sim::FaultRule& rule) {
  constexpr double kPassesSoon = 10;  // percent
  return rule.fault.kind == sim::Fault::Kind::refused && rule.last == UINT64_MAX &&
         rule.percent > kPassesSoon;
}

/// Makes `call` until it succeeds; what is gone already never will.
template <class Call>
void insist(Call&& call) {
  for (int tries = 0; tries < kTries; ++tries)
    if (call() == CUDA_SUCCESS) return;
}

void release_contexts(int devices) {
  for (CUdevice device = 0; device < devices; ++device) {
    unsigned flags = 0;
    int active = 1;
    while (active != 0) {
      active = 0;
      insist([&] { return sim::berth_sim_cuDevicePrimaryCtxGetState(device, &flags, &active); });
      insist([&] { return sim::berth_sim_cuDevicePrimaryCtxRelease(device); });
    }
  }
}

template <class Call>
void end_all(const Things& things, Kind kind, Call&& call) {
  for (const Thing& thing : things.all_live(kind)) insist([&] { return call(thing); });
}

/// Memory of pools outlives contexts, but not the wish to be rid of it.
void empty_pools(int devices, const Things& things) {
  for (CUdevice device = 0; device < devices; ++device) {
    CUcontext context = nullptr;
    insist([&] { return sim::berth_sim_cuDevicePrimaryCtxRetain(&context, device); });
    insist([&] { return sim::berth_sim_cuCtxSetCurrent(context); });
    end_all(things, Kind::memory,
            [](Thing thing) { return sim::berth_sim_cuMemFree(thing.value); });
    insist([] { return sim::berth_sim_cuCtxSynchronize(); });  // pools see frees in a wait
  }
  end_all(things, Kind::pool,
          [](Thing thing) { return sim::berth_sim_cuMemPoolDestroy(Bits{thing.value}); });
  for (CUdevice device = 0; device < devices; ++device) {
    CUmemoryPool pool = nullptr;
    insist([&] { return sim::berth_sim_cuDeviceGetDefaultMemPool(&pool, device); });
    insist([&] { return sim::berth_sim_cuMemPoolTrimTo(pool, 0); });
  }
}

/// A handle may be held more than once.
void release_physical(const std::vector<Thing>& handles) {
  for (const Thing& thing : handles)
    for (int tries = 0; tries < kTries; ++tries) sim::berth_sim_cuMemRelease(thing.value);
}

/// The references of the program, as many as it may have; graphs have let go of theirs.
void release_objects(const std::vector<Thing>& objects) {
  for (const Thing& thing : objects) {
    // By halves, because there may be billions.
    for (unsigned count = 1U << 30; count != 0; count /= 2)
      for (int refused = 0; refused < kTries;)
        refused += sim::berth_sim_cuUserObjectRelease(Bits{thing.value}, count) != CUDA_SUCCESS;
  }
}

bool loses_a_device(const sim::FaultRule& rule) {
  return rule.fault.kind == sim::Fault::Kind::lost;
}

}  // namespace

void tear_down(sim::Simulator& simulator, const sim::Config& config, const Things& things) {
  const auto& rules = config.faults.rules();
  if (std::any_of(rules.begin(), rules.end(), refuses_for_good)) return;
  int devices = 0;  // as many as can have contexts, instances of split ones included
  insist([&] { return sim::berth_sim_cuDeviceGetCount(&devices); });
  end_all(things, Kind::context,
          [](Thing thing) { return sim::berth_sim_cuCtxDestroy(Bits{thing.value}); });
  release_contexts(devices);
  empty_pools(devices, things);
  release_contexts(devices);
  end_all(things, Kind::mapping,
          [](Thing thing) { return sim::berth_sim_cuMemUnmap(thing.value, thing.bytes); });
  end_all(things, Kind::reservation,
          [](Thing thing) { return sim::berth_sim_cuMemAddressFree(thing.value, thing.bytes); });
  release_physical(things.all_live(Kind::physical));
  release_physical(things.all_gone(Kind::physical));
  end_all(things, Kind::exec,
          [](Thing thing) { return sim::berth_sim_cuGraphExecDestroy(Bits{thing.value}); });
  end_all(things, Kind::graph,
          [](Thing thing) { return sim::berth_sim_cuGraphDestroy(Bits{thing.value}); });
  release_objects(things.all_live(Kind::user_object));
  // Its contexts cannot be had any more, and so the memory of its pools cannot be freed.
  if (std::any_of(rules.begin(), rules.end(), loses_a_device)) return;
  for (const std::string& line : simulator.live_list()) fmt::print(stderr, "left: {}\n", line);
  BERTH_CHECK(simulator.live() == sim::Live{});
  for (int slot = 0; slot < config.devices; ++slot)
    BERTH_CHECK(simulator.device_bytes_used(slot) == 0);
}

}  // namespace berth::fuzz
