// SPDX-License-Identifier: Apache-2.0
#include "device/proc_devices.hpp"

#include <charconv>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "device/device_names.hpp"

namespace berth {
namespace {

namespace fs = std::filesystem;

std::string without_blanks_around(const std::string& text) {
  constexpr const char* blanks = " \t\r";
  const std::size_t begin = text.find_first_not_of(blanks);
  if (begin == std::string::npos) return {};
  return text.substr(begin, text.find_last_not_of(blanks) + 1 - begin);
}

std::optional<unsigned> number_of(const std::string& text) {
  unsigned number = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, failure] = std::from_chars(text.data(), end, number);
  return failure == std::errc() && stop == end ? std::optional(number) : std::nullopt;
}

/// From lines such as "Model: \t NVIDIA H100 80GB HBM3".
KnownDevice read_information(std::ifstream& file) {
  KnownDevice device;
  std::string line;
  while (std::getline(file, line)) {
    const std::size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    const std::string key = line.substr(0, colon);
    const std::string value = without_blanks_around(line.substr(colon + 1));
    if (key == "Model") device.name = value;
    if (key == "Device Minor") device.minor_number = number_of(value);
    if (key == "GPU UUID" && is_device_uuid(value)) device.uuid = value;
    if (key == "Bus Location" && is_pci_address(value)) device.pci_bus_id = value;
  }
  return device;
}

}  // namespace

std::vector<KnownDevice> read_proc_devices(const std::string& root) {
  std::multimap<std::string, KnownDevice> by_address;
  std::error_code ignored;
  for (fs::directory_iterator entry(root, ignored), end; entry != end; entry.increment(ignored)) {
    std::ifstream file(entry->path() / "information");
    if (!file) continue;
    KnownDevice device = read_information(file);
    const std::string folder = entry->path().filename().string();
    if (device.pci_bus_id.empty() && is_pci_address(folder)) device.pci_bus_id = folder;
    if (device.uuid.empty() && device.pci_bus_id.empty()) continue;
    std::string address = long_pci_address(device.pci_bus_id);
    by_address.emplace(std::move(address), std::move(device));
  }
  std::vector<KnownDevice> devices;
  devices.reserve(by_address.size());
  for (auto& [address, device] : by_address) devices.push_back(std::move(device));
  return devices;
}

}  // namespace berth
