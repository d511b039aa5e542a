// SPDX-License-Identifier: Apache-2.0
#include "device/visible_device_cases.hpp"

namespace berth::test {
namespace {

using enum VisibilityRule;

// Device 0 is whole, device 1 has two instances, device 2 is in MIG mode and has none.

VisibleDeviceCases instances_since_r570() {
  return {"devices=3,memory=8GiB,mig=1:2/2:0,driver_version=12080",
          std::nullopt,
          {
              {instance_many, std::nullopt, "0 1.0 1.1"},
              {empty, "", ""},
              {minus_one, "-1", ""},
              {instance_uuid, "@1.0", "1.0"},
              {instance_uuid, "@1.1", "1.1"},
              {instance_many, "@1.0,@1.1", "1.0 1.1"},
              {instance_many, "@1.1,@1.0", "1.1 1.0"},
              {last_comma, "@1.1,", "1.1"},
              {instance_older_name, "MIG-$1/1/0", "1.0"},
              {instance_older_name, "MIG-$1/2/0", "1.1"},
              {instance_older_name, "MIG-$1/2/0,MIG-$1/1/0", "1.1 1.0"},
              {instance_older_name, "MIG-$1/2/0,@1.0", "1.1 1.0"},
              {repeated, "@1.0,@1.0", "", "@1.0"},
              {repeated, "@1.0,@1.1,@1.0", "", "@1.0"},
              {repeated, "@1.0,MIG-$1/1/0", "", "MIG-$1/1/0"},
              {invalid_ends, "MIG-", "", "MIG-"},
              {invalid_ends, "MIG-GPU-", "", "MIG-GPU-"},
              {invalid_ends, "@1.0,MIG-x,@1.1", "1.0", "MIG-x"},
              {invalid_ends, "MIG-$1/3/0", "", "MIG-$1/3/0"},
              {invalid_ends, "MIG-$1/0/0", "", "MIG-$1/0/0"},
              {invalid_ends, "MIG-$1/1/1", "", "MIG-$1/1/1"},
              {invalid_ends, "MIG-$0/1/0", "", "MIG-$0/1/0"},
              {invalid_ends, "MIG-$2/1/0", "", "MIG-$2/1/0"},
              {invalid_ends, "MIG-$1", "", "MIG-$1"},
              {instance_in_full, "!1.0", "", "!1.0"},
              {instance_in_full, "@1.1,!1.0", "1.1", "!1.0"},
              {instance_in_full, "@1.0x", "", "@1.0x"},
              {instance_in_full, "MIG-%1/1/0", "", "MIG-%1/1/0"},
              {instance_in_full, "MIG-$1/1", "", "MIG-$1/1"},
              {instance_in_full, "MIG-$1/1/0/0", "", "MIG-$1/1/0/0"},
              {instance_in_full, "MIG-$1/1/0x", "", "MIG-$1/1/0x"},
              {instance_in_full, "MIG-$1/01/0", "", "MIG-$1/01/0"},
              {instance_in_full, "MIG-$1/+1/0", "", "MIG-$1/+1/0"},
              {instance_in_full, "MIG-$1/ 1/0", "", "MIG-$1/ 1/0"},
              {instance_in_full, "@1.0 ", "", "@1.0 "},
              {uuid_exact, " @1.0", "", " @1.0"},
              {kinds, "@1.0,0", "1.0", "0"},
              {kinds, "@1.0,$0", "1.0", "$0"},
              {kinds, "@1.0,-1", "1.0", "-1"},
              {kinds, "0,@1.0", "0", "@1.0"},
              {kinds, "$0,@1.0", "0", "@1.0"},
              {sequence, "0", "0"},
              {uuid, "$0", "0"},
              {split_device, "1", "1.0 1.1"},
              {split_device, "0,1", "0 1.0 1.1"},
              {split_device, "1,0", "1.0 1.1 0"},
              {split_device, "$1", "1.0 1.1"},
              {split_device, "%1,$0", "1.0 1.1 0"},
              {repeated, "1,1", "", "1"},
              {no_instances, "2", "", "2"},
              {no_instances, "2,0", "0", "2"},
              {no_instances, "0,2,1", "0 1.0 1.1", "2"},
              {no_instances, "$2", "", "$2"},
              {invalid_ends, "3", "", "3"},
          }};
}

VisibleDeviceCases instances_before_r570() {
  return {"devices=3,memory=8GiB,mig=1:2/2:0,driver_version=12070",
          std::nullopt,
          {
              {instance_one, std::nullopt, "1.0"},
              {empty, "", ""},
              {minus_one, "-1", ""},
              {instance_uuid, "@1.0", "1.0"},
              {instance_uuid, "@1.1", "1.1"},
              {instance_older_name, "MIG-$1/2/0", "1.1"},
              {instance_one, "@1.1,@1.0", "1.1", "@1.0"},
              {instance_one, "@1.0,MIG-$1/2/0", "1.0", "MIG-$1/2/0"},
              {instance_one, "1", "1.0"},
              {instance_one, "$1", "1.0"},
              {instance_one, "0,1", "1.0", "0"},
              {instance_one, "1,0", "1.0", "0"},
              {instance_one, "$0,$1", "1.0", "$0"},
              {sequence, "0", "0"},
              {uuid, "$0", "0"},
              {no_instances, "2", "", "2"},
              {no_instances, "2,0", "0", "2"},
              {no_instances, "0,2", "0", "2"},
              {repeated, "@1.0,@1.0", "", "@1.0"},
              {invalid_ends, "@1.0,MIG-x", "1.0", "MIG-x"},
              {invalid_ends, "MIG-x,@1.0", "", "MIG-x"},
              {kinds, "@1.1,0", "1.1", "0"},
              {instance_in_full, "!1.1", "", "!1.1"},
          }};
}

VisibleDeviceCases every_device_split() {
  return {"devices=2,memory=16GiB,mig=0:1/1:7,driver_version=13000",
          std::nullopt,
          {
              {instance_many, std::nullopt, "0.0 1.0 1.1 1.2 1.3 1.4 1.5 1.6"},
              {split_device, "1,0", "1.0 1.1 1.2 1.3 1.4 1.5 1.6 0.0"},
              {split_device, "0", "0.0"},
              {instance_many, "@1.6,@0.0,@1.0", "1.6 0.0 1.0"},
              {instance_older_name, "MIG-$1/7/0,MIG-$0/1/0", "1.6 0.0"},
          }};
}

VisibleDeviceCases every_device_split_before_r570() {
  return {"devices=2,memory=16GiB,mig=0:1/1:7,driver_version=12020",
          std::nullopt,
          {
              {instance_one, std::nullopt, "0.0"},
              {instance_one, "1", "1.0"},
              {instance_one, "1,0", "1.0", "0"},
              {instance_uuid, "@1.6", "1.6"},
          }};
}

VisibleDeviceCases split_without_instances() {
  return {"devices=1,mig=0:0",
          std::nullopt,
          {
              {no_instances, std::nullopt, ""},
              {no_instances, "0", "", "0"},
              {no_instances, "GPU-", "", "GPU-"},
          }};
}

VisibleDeviceCases instances_in_reverse_order() {
  return {"devices=3,memory=8GiB,mig=1:2,order=reverse",
          std::nullopt,
          {
              {order, std::nullopt, "2 1.0 1.1 0"},
              {order, "0", "2"},
              {order, "1", "1.0 1.1"},
              {order, "2,1", "0 1.0 1.1"},
              {instance_uuid, "@1.1", "1.1"},
          }};
}

// The heuristic of FASTEST_FIRST finds the last device the fastest there.
constexpr std::string_view kReverse = "devices=4,order=reverse";

VisibleDeviceCases fastest_first(std::optional<std::string_view> said) {
  return {kReverse,
          said,
          {
              {order, std::nullopt, "3 2 1 0"},
              {order, "0", "3"},
              {order, "3", "0"},
              {order, "0,1", "3 2"},
              {order, "1,0", "2 3"},
              {order, "2,0,3", "1 3 0"},
              {invalid_ends, "1,4", "2", "4"},
              {repeated, "1,1", "", "1"},
              {uuid, "$0,$3", "0 3"},
              {uuid_abbreviated, "%2", "2"},
              {empty, "", ""},
          }};
}

VisibleDeviceCases pci_order() {
  return {kReverse,
          "PCI_BUS_ID",
          {
              {order, std::nullopt, "0 1 2 3"},
              {order, "0", "0"},
              {order, "3,0", "3 0"},
              {order, "1,2", "1 2"},
              {uuid, "$2,$1", "2 1"},
              {invalid_ends, "1,4", "1", "4"},
          }};
}

VisibleDeviceCases unknown_order(std::string_view said) {
  return {kReverse,
          said,
          {
              {order_unknown, std::nullopt, "3 2 1 0"},
              {order_unknown, "0,1", "3 2"},
          }};
}

}  // namespace

std::vector<VisibleDeviceCases> instance_and_order_cases() {
  return {instances_since_r570(),
          instances_before_r570(),
          every_device_split(),
          every_device_split_before_r570(),
          split_without_instances(),
          instances_in_reverse_order(),
          fastest_first(std::nullopt),
          fastest_first("FASTEST_FIRST"),
          pci_order(),
          unknown_order(""),
          unknown_order("pci_bus_id"),
          unknown_order("PCI_BUS_ID "),
          unknown_order("SLOWEST_FIRST")};
}

}  // namespace berth::test
