// SPDX-License-Identifier: Apache-2.0
#include "device/device_node.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <unistd.h>

#include "base/format.hpp"
#include "device/device_names.hpp"

namespace berth {

std::string find_node_fault(const std::vector<KnownDevice>& kernel_devices,
                            std::string_view pci_bus_id, const std::string& dev_folder) {
  const auto found = std::ranges::find_if(kernel_devices, [&](const KnownDevice& device) {
    return !device.pci_bus_id.empty() && long_pci_address(device.pci_bus_id) == pci_bus_id;
  });
  if (found == kernel_devices.end() || !found->minor_number) return {};
  const std::string path = format_text("{}/nvidia{}", dev_folder, *found->minor_number);
  return access(path.c_str(), R_OK | W_OK) == 0 ? "" : describe_node_fault(path, errno);
}

std::string describe_node_fault(const std::string& path, int error) {
  switch (error) {
    case 0:
      return {};
    case ENOENT:
      return path + " does not exist here: the container has other devices, or none";
    case EPERM:  // the kernel's answer if a device cgroup refuses, not the mode of the file
      return "a device cgroup denies this process access to " + path +
             ": the container or the job has other devices";
    case EACCES:
      return "this user has no permission to read and write " + path;
    default:
      return format_text("{} cannot be opened: {}", path, std::strerror(error));
  }
}

}  // namespace berth
