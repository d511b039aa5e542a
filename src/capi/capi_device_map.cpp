// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <span>
#include <vector>

#include "berth/device_map.h"
#include "berth/device_map.hpp"

#include "capi/capi_convert.hpp"
#include "capi/capi_error.hpp"

struct berth_device_map {
  berth::DeviceMap map;
};

using namespace berth;
using namespace berth::capi;

berth_status berth_device_map_parse(const char* text, berth_device_map** map) {
  return guarded([&] {
    require(text, "text");
    auto& out = require(map, "map");
    out = std::make_unique<berth_device_map>(berth_device_map{DeviceMap::parse(text)}).release();
  });
}

berth_status berth_device_map_create(berth_device_map_function function, void* user,
                                     berth_device_map** map) {
  return guarded([&] {
    if (function == nullptr) refuse_null("function");
    auto& out = require(map, "map");
    const auto ask = [function, user](Device saved) {
      return to_device(function(user, from_device(saved)), "what the function returned");
    };
    out = std::make_unique<berth_device_map>(berth_device_map{DeviceMap(ask)}).release();
  });
}

berth_status berth_device_map_create_table(const berth_device_map_entry* entries, std::size_t count,
                                           berth_device_map** map) {
  return guarded([&] {
    std::vector<DeviceMap::Entry> table;
    for (const berth_device_map_entry& entry : require_array(entries, count, "entries")) {
      table.push_back(
          {to_device(entry.saved, "entries.saved"), to_device(entry.target, "entries.target")});
    }
    auto& out = require(map, "map");
    out = new berth_device_map{DeviceMap(std::span<const DeviceMap::Entry>(table))};
  });
}

berth_status berth_device_map_create_all(berth_device target, berth_device_map** map) {
  return guarded([&] {
    const Device all = to_device(target, "target");
    auto& out = require(map, "map");
    out = new berth_device_map{DeviceMap::all_to(all)};
  });
}

void berth_device_map_release(berth_device_map* map) {
  delete map;
}

berth_status berth_device_map_find(berth_device_map* map, berth_device saved,
                                   berth_device* target) {
  return guarded([&] {
    const DeviceMap& known = require(map, "map").map;
    auto& out = require(target, "target");
    out = from_device(known(to_device(saved, "saved")));
  });
}

berth_status berth_device_map_check(berth_device_map* map, berth_runtime* runtime,
                                    const berth_device* saved, std::size_t count) {
  return guarded([&] {
    const DeviceMap& known = require(map, "map").map;
    const DeviceRegistry& devices = to_runtime(runtime).devices();
    std::vector<Device> converted;
    for (const berth_device device : require_array(saved, count, "saved"))
      converted.push_back(to_device(device, "saved"));
    known.check(devices, converted);
  });
}
