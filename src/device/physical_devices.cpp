// SPDX-License-Identifier: Apache-2.0
#include "device/physical_devices.hpp"

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/check.hpp"
#include "device/device_names.hpp"

namespace berth {
namespace {

/// Part of CUDA's names of instances: "NVIDIA H100 80GB HBM3 MIG 1g.10gb".
constexpr std::string_view kInstanceMark = " MIG ";

struct Joined {
  DeviceInfo device;
  std::vector<DeviceInfo> instances;
  bool split_unknown = false;  ///< whether it is in MIG mode is unknown
};

DeviceInfo instance_info(const KnownInstance& known, const std::string& pci_bus_id) {
  DeviceInfo info;
  info.uuid = known.uuid;
  info.pci_bus_id = pci_bus_id;
  info.name = known.name;
  info.memory_bytes = known.memory_bytes;
  info.mig_instance = MigInstanceIds{};
  if (known.gpu_instance) info.mig_instance->gpu_instance = int(*known.gpu_instance);
  if (known.compute_instance) info.mig_instance->compute_instance = int(*known.compute_instance);
  return info;
}

Joined joined_from(KnownDevice known) {
  Joined joined;
  joined.device.uuid = std::move(known.uuid);
  if (!known.pci_bus_id.empty()) joined.device.pci_bus_id = long_pci_address(known.pci_bus_id);
  joined.device.name = std::move(known.name);
  joined.device.memory_bytes = known.memory_bytes;
  joined.device.mig_mode = known.mig_mode.value_or(false);
  joined.device.lost = known.lost;
  joined.split_unknown = !known.mig_mode;
  for (const KnownInstance& instance : known.instances) {
    joined.instances.push_back(instance_info(instance, joined.device.pci_bus_id));
  }
  return joined;
}

class Join {
 public:
  explicit Join(std::vector<KnownDevice> known) {
    all_.reserve(known.size());
    for (KnownDevice& device : known) all_.push_back(joined_from(std::move(device)));
  }

  void add(const ShownDevice& shown) {
    DeviceInfo* info = find_by_uuid(shown);
    if (info == nullptr) info = find_by_address(shown);
    if (info == nullptr) info = add_device(shown);
    BERTH_CHECK(!info->logical);  // shown once
    info->logical = shown.ordinal;
    if (!shown.name.empty()) info->name = shown.name;
    if (!shown.pci_bus_id.empty()) info->pci_bus_id = shown.pci_bus_id;
    if (shown.memory_bytes != 0) info->memory_bytes = shown.memory_bytes;
  }

  DeviceList take() {
    const auto in_pci_order = [](const Joined* a, const Joined* b) {
      return a->device.pci_bus_id < b->device.pci_bus_id;
    };
    // They are few, and usually in that order already.
    std::vector<Joined*> in_order;
    in_order.reserve(all_.size());
    for (Joined& joined : all_)
      in_order.insert(std::upper_bound(in_order.begin(), in_order.end(), &joined, in_pci_order),
                      &joined);
    DeviceList list;
    list.devices.reserve(all_.size());
    for (Joined* const joined : in_order) {
      const int physical = static_cast<int>(list.devices.size());
      joined->device.physical = physical;
      list.devices.push_back(std::move(joined->device));
      for (DeviceInfo& instance : joined->instances) {
        instance.physical = physical;
        list.instances.push_back(std::move(instance));
      }
    }
    return list;
  }

 private:
  /// A device is not shown twice, even if two devices claim one UUID.
  DeviceInfo* find_by_uuid(const ShownDevice& shown) {
    if (!shown.uuid) return nullptr;
    const std::string device_uuid = device_uuid_text(*shown.uuid);
    for (Joined& joined : all_) {
      if (!joined.device.logical && joined.device.uuid == device_uuid) return &joined.device;
      if (joined.instances.empty()) continue;
      const std::string instance_uuid = instance_uuid_text(*shown.uuid);
      for (DeviceInfo& instance : joined.instances) {
        if (!instance.logical && instance.uuid == instance_uuid) return &instance;
      }
    }
    return nullptr;
  }

  /// The device at the same address, or a new instance of it; null if it is another device.
  DeviceInfo* find_by_address(const ShownDevice& shown) {
    const auto found = std::find_if(all_.begin(), all_.end(), [&](const Joined& joined) {
      return !shown.pci_bus_id.empty() && joined.device.pci_bus_id == shown.pci_bus_id;
    });
    if (found == all_.end()) return nullptr;
    const bool other_uuid = shown.uuid && !found->device.uuid.empty();
    const bool is_instance =
        found->device.mig_mode || names_instance(shown) || (found->split_unknown && other_uuid);
    if (is_instance) return add_instance(*found, shown);
    if (other_uuid || found->device.logical) return nullptr;
    if (shown.uuid) found->device.uuid = device_uuid_text(*shown.uuid);
    return &found->device;
  }

  DeviceInfo* add_device(const ShownDevice& shown) {
    Joined& joined = all_.emplace_back();
    joined.device.pci_bus_id = shown.pci_bus_id;
    joined.split_unknown = true;
    if (names_instance(shown)) {
      joined.device.name = shown.name.substr(0, shown.name.find(kInstanceMark));
      return add_instance(joined, shown);
    }
    if (shown.uuid) joined.device.uuid = device_uuid_text(*shown.uuid);
    return &joined.device;
  }

  static DeviceInfo* add_instance(Joined& joined, const ShownDevice& shown) {
    joined.device.mig_mode = true;
    KnownInstance instance;
    if (shown.uuid) instance.uuid = instance_uuid_text(*shown.uuid);
    joined.instances.push_back(instance_info(instance, joined.device.pci_bus_id));
    return &joined.instances.back();
  }

  static bool names_instance(const ShownDevice& shown) {
    return shown.name.find(kInstanceMark) != std::string::npos;
  }

  std::vector<Joined> all_;
};

}  // namespace

std::vector<ShownDevice> read_shown_devices(const Driver& driver) {
  std::vector<ShownDevice> devices;
  devices.reserve(driver.devices().size());
  for (const CUdevice native : driver.devices()) {
    const int ordinal = static_cast<int>(devices.size());
    ShownDevice& device = devices.emplace_back();
    device.ordinal = ordinal;
    char pci[32] = {};
    char name[256] = {};
    std::size_t bytes = 0;
    CUuuid uuid{};
    if (driver.try_device_get_uuid(&uuid, native) == CUDA_SUCCESS) device.uuid = uuid;
    if (driver.try_device_get_pci_bus_id(pci, int{sizeof pci}, native) == CUDA_SUCCESS) {
      device.pci_bus_id = long_pci_address(pci);
    }
    if (driver.try_device_get_name(name, int{sizeof name}, native) == CUDA_SUCCESS) {
      device.name = name;
    }
    if (driver.try_device_total_mem(&bytes, native) == CUDA_SUCCESS) device.memory_bytes = bytes;
  }
  return devices;
}

DeviceList join_devices(const std::vector<ShownDevice>& shown, std::vector<KnownDevice> known) {
  Join join(std::move(known));
  for (const ShownDevice& device : shown) join.add(device);
  return join.take();
}

}  // namespace berth
