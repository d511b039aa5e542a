// SPDX-License-Identifier: Apache-2.0
// Source of the numbers: jax/_src/hardware_utils.py, which counts the chips of a machine by them.
#include "device/tpu_chips.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <system_error>

namespace berth {
namespace {

constexpr std::string_view kTpuVendor = "0x1ae0";
/// v2 and v3, v4 (and one without a public name), v5p, v5e, v6e, 7x, 8i and 8t.
constexpr std::array<std::string_view, 9> kTpuChips = {
    "0x0027", "0x0056", "0x005e", "0x0062", "0x0063", "0x006f", "0x0076", "0x0083", "0x007c"};

std::string first_word(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::string word;
  file >> word;
  return word;
}

}  // namespace

int count_tpu_chips(const std::string& root) {
  int count = 0;
  std::error_code ignored;
  for (std::filesystem::directory_iterator entry(root, ignored), end; entry != end;
       entry.increment(ignored)) {
    if (first_word(entry->path() / "vendor") != kTpuVendor) continue;
    if (std::ranges::count(kTpuChips, first_word(entry->path() / "device")) > 0) ++count;
  }
  return count;
}

}  // namespace berth
