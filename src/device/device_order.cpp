// SPDX-License-Identifier: Apache-2.0
#include "device/device_order.hpp"

#include <algorithm>
#include <numeric>

#include "base/check.hpp"
#include "device/visible_devices.hpp"
#include "device/visible_entry.hpp"

namespace berth {
namespace {

using Devices = std::vector<std::size_t>;

/// The same, with each device once.
Devices without_repeats(const Devices& devices) {
  Devices once;
  for (const std::size_t device : devices) {
    if (std::find(once.begin(), once.end(), device) == once.end()) once.push_back(device);
  }
  return once;
}

/// The position of each shown device in CUDA's order; empty if it is unknown.
Devices places_of_shown(const DeviceOrderQuestion& question, std::size_t shown) {
  Devices places(shown);
  std::iota(places.begin(), places.end(), std::size_t{0});
  if (!question.visible) return places;
  if (kind_of(*question.visible) != EntryKind::ordinal) return {};
  Machine machine;
  machine.devices.resize(question.devices);
  places.clear();
  for (const Place& place : resolve_visible_devices(question.visible, machine).places) {
    places.push_back(place.device);
  }
  // Otherwise the driver read another text, or cannot show some of the devices that it names.
  return places.size() == shown ? places : Devices();
}

}  // namespace

std::vector<std::size_t> cuda_order(const DeviceOrderQuestion& question) {
  Devices order(question.devices);
  std::iota(order.begin(), order.end(), std::size_t{0});
  if (question.order == "PCI_BUS_ID") return order;

  const Devices shown = without_repeats(question.shown);
  // In PCI order, as the others are, even if CUDA cannot show some of them.
  if (!question.visible && std::is_sorted(shown.begin(), shown.end())) return order;
  const Devices places = places_of_shown(question, shown.size());
  if (places.empty()) return order;
  for (const std::size_t device : shown) order.erase(std::find(order.begin(), order.end(), device));
  Devices by_place(question.devices, question.devices);  // an impossible device: not known
  for (std::size_t index = 0; index < places.size(); ++index) {
    by_place[places[index]] = shown[index];
  }
  auto other = order.begin();
  for (std::size_t& device : by_place) {
    if (device == question.devices) {
      BERTH_CHECK(other != order.end());
      device = *other++;
    }
  }
  BERTH_CHECK(other == order.end());  // each device has one place
  return by_place;
}

}  // namespace berth
