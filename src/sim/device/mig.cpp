// SPDX-License-Identifier: Apache-2.0
#include "sim/device/mig.hpp"

#include <bit>
#include <charconv>

#include "base/arithmetic.hpp"
#include "base/check.hpp"
#include "base/format.hpp"

namespace berth::sim {
namespace {

constexpr int kComputeSlices = 7;
constexpr int kMemorySlices = 8;

/// Reads a decimal number from the start of `text`, and removes it.
bool take_number(std::string_view& text, int& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || value < 0) return false;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return true;
}

bool take(std::string_view& text, char expected) {
  if (!text.starts_with(expected)) return false;
  text.remove_prefix(1);
  return true;
}

}  // namespace

int MigInstance::multiprocessors() const {
  switch (compute_slices) {
    case 7:
      return 132;
    case 3:
      return 60;
    default:
      return 16 * compute_slices;
  }
}

// Memory is cut in halves, and a slice of compute in eight is given up for that.
MigInstance mig_instance(int parent, int index, int count) {
  BERTH_CHECK(count >= 1 && count <= kMigInstancesMax && index < count);
  const int places = static_cast<int>(std::bit_ceil(static_cast<unsigned>(count)));
  return {parent, index, kComputeSlices / count, kMemorySlices / places};
}

std::optional<MigDevices> parse_mig(std::string_view text) {
  MigDevices mig;
  if (text == "off") return mig;
  for (;;) {
    int slot = 0;
    int instances = 0;
    if (!take_number(text, slot) || !take(text, ':') || !take_number(text, instances)) return {};
    if (instances > kMigInstancesMax || !mig.emplace(slot, instances).second) return {};
    if (text.empty()) return mig;
    if (!take(text, '/')) return {};
  }
}

std::string mig_text(const MigDevices& mig) {
  if (mig.empty()) return "off";
  std::string text;
  for (const auto& [slot, instances] : mig)
    text += format_text("{}{}:{}", text.empty() ? "" : "/", slot, instances);
  return text;
}

std::uint64_t mig_memory_bytes(const MigInstance& instance, std::uint64_t bytes,
                               std::uint64_t granularity) {
  const auto slices = static_cast<std::uint64_t>(instance.memory_slices);
  return align_down(bytes / kMemorySlices * slices, granularity);
}

}  // namespace berth::sim
