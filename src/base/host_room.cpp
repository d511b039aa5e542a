// SPDX-License-Identifier: Apache-2.0
#include "base/host_room.hpp"

#include <algorithm>
#include <fstream>
#include <limits>
#include <optional>

#include "berth/bytes.hpp"

namespace berth {
namespace {

/// The number behind `key` in a file of lines such as "MemAvailable:  123 kB".
std::optional<std::size_t> find_number(const std::string& path, const std::string& key) {
  std::ifstream file(path);
  std::string word;
  while (file >> word) {
    std::size_t number = 0;
    if (word == key && file >> number) return number;
    file.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  return std::nullopt;
}

/// The number that a file consists of; none if the file has "max" or is missing.
std::optional<std::size_t> read_number(const std::string& path) {
  std::ifstream file(path);
  std::size_t number = 0;
  return file >> number ? std::optional(number) : std::nullopt;
}

}  // namespace

std::size_t host_room_bytes(const std::string& meminfo, const std::string& control_group) {
  std::size_t room = std::numeric_limits<std::size_t>::max();
  if (const auto available = find_number(meminfo, "MemAvailable:")) room = *available * 1_KiB;
  const auto limit = read_number(control_group + "/memory.max");
  const auto used = read_number(control_group + "/memory.current");
  if (limit && used) {
    const std::size_t droppable =
        find_number(control_group + "/memory.stat", "inactive_file").value_or(0);
    const std::size_t held = *used - std::min(*used, droppable);
    room = std::min(room, *limit - std::min(*limit, held));
  }
  return room;
}

}  // namespace berth
