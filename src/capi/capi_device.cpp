// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "base/format.hpp"
#include "capi/capi_convert.hpp"
#include "capi/capi_error.hpp"

using namespace berth;
using namespace berth::capi;

struct berth_device_guard {
  DeviceGuard guard;
};

namespace {

const DeviceRegistry& devices_of(berth_runtime* runtime) {
  return to_runtime(runtime).devices();
}

std::uint64_t flags_of(const DeviceInfo& device) {
  std::uint64_t flags = 0;
  if (device.mig_mode) flags |= BERTH_DEVICE_MIG_MODE;
  if (device.mig_instance) flags |= BERTH_DEVICE_MIG_INSTANCE;
  if (device.lost) flags |= BERTH_DEVICE_LOST;
  return flags;
}

void write_info(const DeviceInfo& device, berth_device_info& out) {
  write_struct(
      {.struct_size = 0,
       .uuid = device.uuid.c_str(),
       .pci_bus_id = device.pci_bus_id.c_str(),
       .name = device.name.c_str(),
       .memory_bytes = device.memory_bytes,
       .physical = device.physical,
       .logical = device.logical.value_or(-1),
       .flags = flags_of(device),
       .gpu_instance = device.mig_instance.value_or(MigInstanceIds{}).gpu_instance,
       .compute_instance = device.mig_instance.value_or(MigInstanceIds{}).compute_instance},
      out);
}

std::size_t checked_index(int index, const char* parameter, std::size_t count) {
  if (index < 0 || static_cast<std::size_t>(index) >= count) {
    throw InvalidArgument(
        format_text("\"{}\" is {}; accepted: from 0, below {}", parameter, index, count));
  }
  return static_cast<std::size_t>(index);
}

}  // namespace

berth_status berth_device_type_register(const char* name, int* type) {
  return guarded([&] {
    require(name, "name");
    auto& out = require(type, "type");
    out = DeviceType::register_name(name).number();
  });
}

berth_status berth_device_type_count(int* count) {
  return guarded([&] {
    auto& out = require(count, "count");
    out = DeviceType::count();
  });
}

berth_status berth_device_type_get_name(int type, const char** name) {
  return guarded([&] {
    auto& out = require(name, "name");
    out = to_device_type(type, "type").name().data();
  });
}

berth_status berth_device_parse(const char* text, berth_device* device) {
  return guarded([&] {
    require(text, "text");
    auto& out = require(device, "device");
    out = from_device(Device::parse(text));
  });
}

berth_status berth_device_format(berth_device device, char** text) {
  return guarded([&] {
    auto& out = require(text, "text");
    out = to_owned_text(to_device(device).to_string());
  });
}

berth_status berth_device_count(berth_runtime* runtime, int* count) {
  return guarded([&] {
    const DeviceRegistry& devices = devices_of(runtime);
    auto& out = require(count, "count");
    out = devices.count();
  });
}

berth_status berth_device_resolve(berth_runtime* runtime, berth_device device,
                                  berth_device* resolved) {
  return guarded([&] {
    const DeviceRegistry& devices = devices_of(runtime);
    auto& out = require(resolved, "resolved");
    out = from_device(devices.resolve(to_device(device)));
  });
}

berth_status berth_device_get_current(berth_runtime* runtime, berth_device* device) {
  return guarded([&] {
    const DeviceRegistry& devices = devices_of(runtime);
    auto& out = require(device, "device");
    out = from_device(devices.current());
  });
}

berth_status berth_device_set_current(berth_runtime* runtime, berth_device device) {
  return guarded([&] { devices_of(runtime).set_current(to_device(device)); });
}

berth_status berth_device_get_info(berth_runtime* runtime, berth_device device,
                                   berth_device_info* info) {
  return guarded([&] {
    const DeviceRegistry& devices = devices_of(runtime);
    auto& out = require_struct(info, "info");
    write_info(devices.info(to_device(device)), out);
  });
}

berth_status berth_device_get_memory_info(berth_runtime* runtime, berth_device device,
                                          berth_memory_info* info) {
  return guarded([&] {
    const DeviceRegistry& devices = devices_of(runtime);
    auto& out = require_struct(info, "info");
    const MemoryInfo memory = devices.memory_info(to_device(device));
    write_struct(
        {.struct_size = 0, .bytes_free = memory.bytes_free, .bytes_total = memory.bytes_total},
        out);
  });
}

berth_status berth_physical_device_count(berth_runtime* runtime, int* count) {
  return guarded([&] {
    const DeviceRegistry& devices = devices_of(runtime);
    auto& out = require(count, "count");
    out = static_cast<int>(devices.physical_devices().size());
  });
}

berth_status berth_physical_device_get_info(berth_runtime* runtime, int physical,
                                            berth_device_info* info) {
  return guarded([&] {
    const auto& known = devices_of(runtime).physical_devices();
    auto& out = require_struct(info, "info");
    write_info(known[checked_index(physical, "physical", known.size())], out);
  });
}

berth_status berth_mig_instance_count(berth_runtime* runtime, int* count) {
  return guarded([&] {
    const DeviceRegistry& devices = devices_of(runtime);
    auto& out = require(count, "count");
    out = static_cast<int>(devices.mig_instances().size());
  });
}

berth_status berth_mig_instance_get_info(berth_runtime* runtime, int index,
                                         berth_device_info* info) {
  return guarded([&] {
    const auto& known = devices_of(runtime).mig_instances();
    auto& out = require_struct(info, "info");
    write_info(known[checked_index(index, "index", known.size())], out);
  });
}

berth_status berth_physical_device_explain(berth_runtime* runtime, int physical, char** sentence) {
  return guarded([&] {
    const DeviceRegistry& devices = devices_of(runtime);
    auto& out = require(sentence, "sentence");
    const std::size_t index =
        checked_index(physical, "physical", devices.physical_devices().size());
    // Each device is followed by its instances.
    const auto& instances = devices.mig_instances();
    const auto before =
        std::count_if(instances.begin(), instances.end(),
                      [&](const DeviceInfo& instance) { return instance.physical < physical; });
    out = to_owned_text(devices.explain()[index + static_cast<std::size_t>(before)].sentence);
  });
}

berth_status berth_mig_instance_explain(berth_runtime* runtime, int index, char** sentence) {
  return guarded([&] {
    const DeviceRegistry& devices = devices_of(runtime);
    auto& out = require(sentence, "sentence");
    const auto& known = devices.mig_instances();
    const std::size_t place = checked_index(index, "index", known.size());
    // Its index, behind the instances before it and all devices up to its own.
    const auto devices_before = static_cast<std::size_t>(known[place].physical) + 1;
    out = to_owned_text(devices.explain()[place + devices_before].sentence);
  });
}

berth_status berth_visible_devices_get(berth_runtime* runtime, const char** text) {
  return guarded([&] {
    const auto& visible = devices_of(runtime).visible_devices();
    require(text, "text") = visible ? visible->c_str() : nullptr;
  });
}

berth_status berth_visible_devices_get_problem(berth_runtime* runtime, const char** problem) {
  return guarded([&] {
    const DeviceRegistry& devices = devices_of(runtime);
    auto& out = require(problem, "problem");
    out = devices.visibility_problem().c_str();
  });
}

berth_status berth_device_get_bytes_of_part(berth_runtime* runtime, berth_device device,
                                            double part, std::size_t* bytes) {
  return guarded([&] {
    const DeviceRegistry& devices = devices_of(runtime);
    auto& out = require(bytes, "bytes");
    const MemoryAmount amount = MemoryAmount::part_of_device(part);
    out = amount.bytes(devices.memory_info(to_device(device)).bytes_total);
  });
}

berth_status berth_device_guard_enter(berth_runtime* runtime, berth_device device,
                                      berth_device_guard** guard) {
  return guarded([&] {
    const DeviceRegistry& devices = devices_of(runtime);
    auto& out = require(guard, "guard");
    out = new berth_device_guard{DeviceGuard(devices, to_device(device))};
  });
}

void berth_device_guard_leave(berth_device_guard* guard) {
  delete guard;
}
