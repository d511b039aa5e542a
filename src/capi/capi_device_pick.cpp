// SPDX-License-Identifier: Apache-2.0
#include "berth/device_pick.h"
#include "berth/device_pick.hpp"
#include "berth/local_rank.hpp"

#include "capi/capi_convert.hpp"
#include "capi/capi_error.hpp"

using namespace berth;
using namespace berth::capi;

static_assert(int(DevicePreference::least_used) == BERTH_PICK_LEAST_USED);
static_assert(int(DevicePreference::most_free_memory) == BERTH_PICK_MOST_FREE_MEMORY);
static_assert(int(DevicePreference::local_rank) == BERTH_PICK_LOCAL_RANK);

namespace {

DevicePreference to_preference(int number) {
  if (number >= BERTH_PICK_LEAST_USED && number <= BERTH_PICK_LOCAL_RANK)
    return static_cast<DevicePreference>(number);
  throw InvalidArgument(
      "\"preference\" is " + std::to_string(number) +
      "; accepted: BERTH_PICK_LEAST_USED, BERTH_PICK_MOST_FREE_MEMORY, BERTH_PICK_LOCAL_RANK");
}

}  // namespace

berth_status berth_device_pick(berth_runtime* runtime, int preference, berth_device* picked) {
  return guarded([&] {
    const DeviceRegistry& devices = to_runtime(runtime).devices();
    auto& out = require(picked, "picked");
    out = from_device(pick_device(devices, to_preference(preference)));
  });
}

berth_status berth_device_find(berth_runtime* runtime, const char* uuid, berth_device* found) {
  return guarded([&] {
    const DeviceRegistry& devices = to_runtime(runtime).devices();
    require(uuid, "uuid");
    auto& out = require(found, "found");
    out = from_device(find_device(devices, uuid));
  });
}

berth_status berth_local_rank_get(int* rank, const char** variable) {
  return guarded([&] {
    auto& rank_out = require(rank, "rank");
    auto& variable_out = require(variable, "variable");
    const auto local = local_rank();
    rank_out = local ? local->rank : -1;
    variable_out = local ? local->variable : "";
  });
}
