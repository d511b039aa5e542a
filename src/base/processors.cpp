// SPDX-License-Identifier: Apache-2.0
#include "base/processors.hpp"

#include <algorithm>
#include <fstream>
#include <string>
#include <thread>

namespace berth {
namespace {

/// Microseconds; none if the file does not exist or has no bound.
std::optional<long long> read_number(std::istream& file) {
  long long number = 0;
  if (!(file >> number) || number <= 0) return std::nullopt;
  return number;
}

std::optional<std::size_t> quota_of(std::optional<long long> quota,
                                    std::optional<long long> period) {
  if (!quota || !period) return std::nullopt;
  return static_cast<std::size_t>((*quota + *period - 1) / *period);
}

// Paths as text: joining two fs::path crashes in libstdc++ 12 if the host has no memory for it.

std::optional<std::size_t> quota_of_group(const std::string& group, bool is_unified) {
  if (is_unified) {
    std::ifstream file(group + "/cpu.max");
    const auto quota = read_number(file);
    return quota_of(quota, read_number(file));
  }
  std::ifstream quota(group + "/cpu.cfs_quota_us");
  std::ifstream period(group + "/cpu.cfs_period_us");
  return quota_of(read_number(quota), read_number(period));
}

/// The bound of the group at `path` and of those above it, under the folder of their file system. A
/// container shows its own group there, whatever its path outside.
std::optional<std::size_t> least_quota(const std::string& mounted, std::string path,
                                       bool is_unified) {
  std::optional<std::size_t> least;
  for (;;) {
    if (const auto quota = quota_of_group(mounted + path, is_unified))
      least = std::min(least.value_or(*quota), *quota);
    if (path.empty()) return least;
    const std::size_t parent_end = path.rfind('/');
    path.erase(parent_end == path.npos ? 0 : parent_end);
  }
}

bool has_controller(const std::string& controllers, const std::string& name) {
  return ("," + controllers + ",").find("," + name + ",") != std::string::npos;
}

}  // namespace

std::optional<std::size_t> processor_quota(const std::string& root) {
  std::optional<std::size_t> least;
  std::ifstream groups(root + "/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {  // number:controllers:path
    const std::size_t first = line.find(':');
    const std::size_t second = first == line.npos ? line.npos : line.find(':', first + 1);
    if (second == line.npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const bool is_unified = controllers.empty();
    if (!is_unified && !has_controller(controllers, "cpu")) continue;
    const std::string mounted = root + "/sys/fs/cgroup/" + controllers;
    if (const auto quota = least_quota(mounted, line.substr(second + 1), is_unified))
      least = std::min(least.value_or(*quota), *quota);
  }
  return least;
}

std::size_t processors_allowed() {
  const std::size_t present = std::max(std::thread::hardware_concurrency(), 1U);
  return std::min(present, processor_quota().value_or(present));
}

}  // namespace berth
