// SPDX-License-Identifier: Apache-2.0
#include "fuzz/host_process.hpp"

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>

namespace berth::fuzz {
namespace {

std::size_t entries(const char* folder) {
  const std::filesystem::directory_iterator all(folder);
  return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

}  // namespace

HostProcess look_at_process() {
  HostProcess process{entries("/proc/self/fd"), entries("/proc/self/task"), 0};
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);)
    process.device_mappings += line.find("memfd:") != std::string::npos;
  return process;
}

bool is_process_like(const HostProcess& before) {
  constexpr int kTries = 1000;
  for (int tries = 0; tries < kTries; ++tries) {
    if (look_at_process() == before) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return false;
}

}  // namespace berth::fuzz
