// SPDX-License-Identifier: Apache-2.0
// The meaning of PyTorch's settings for berth. Source of keys, values and their ranges: c10/core/
// AllocatorConfig.cpp and c10/cuda/CUDAAllocatorConfig.cpp of PyTorch 2.14.
#include <bit>
#include <limits>
#include <optional>
#include <utility>

#include "berth/bytes.hpp"
#include "berth/configuration.hpp"

#include "base/format.hpp"
#include "base/text_list.hpp"
#include "runtime/entry_list.hpp"
#include "runtime/option_text.hpp"

namespace berth {
namespace {

constexpr std::uint64_t kMibMax = std::numeric_limits<std::size_t>::max() / 1_MiB;

/// The settings of a text that concern berth.
struct Settings {
  std::optional<bool> expandable_segments;
  std::optional<double> fraction;   ///< per_process_memory_fraction
  std::optional<double> threshold;  ///< garbage_collection_threshold
  std::uint64_t large_segment_mib = 20;
  std::optional<std::uint64_t> max_split_mib;
  std::optional<std::uint64_t> max_rounding_mib;
  std::optional<bool> registers_pinned;
  std::optional<std::uint64_t> register_threads;
};

template <class T>
bool keep(std::optional<T>& target, const std::optional<T>& value) {
  if (value) target = value;
  return value.has_value();
}

std::optional<bool> read_bool(std::string_view text) {
  if (text == "True" || text == "true") return true;  // PyTorch's own example has it in lower case
  if (text == "False" || text == "false") return false;
  return std::nullopt;
}

std::optional<double> read_fraction(std::string_view text) {
  const auto part = read_number(text);
  return part && *part <= 1 ? part : std::nullopt;
}

bool is_bool(Settings&, std::string_view text) {
  return read_bool(text).has_value();
}

bool is_mib(Settings&, std::string_view text) {
  return read_count(text, 0, kMibMax).has_value();
}

bool is_power_of_two(std::string_view text) {
  const auto count = read_count(text, 1);
  return count && std::has_single_bit(*count);
}

/// "[name:value,...]", one entry or more.
template <class Accepts>
bool is_list(std::string_view text, Accepts accepts) {
  const std::string_view inside = inside_brackets(text);
  if (inside.data() == nullptr) return false;
  for (const std::string_view entry : split(inside, ',')) {
    const auto colon = entry.find(':');
    if (colon == entry.npos) return false;
    if (!accepts(trim(entry.substr(0, colon)), trim(entry.substr(colon + 1)))) return false;
  }
  return true;
}

bool is_divisions(Settings&, std::string_view text) {
  if (is_power_of_two(text)) return true;
  return is_list(text, [](std::string_view mib, std::string_view divisions) {
    return (mib == ">" || is_power_of_two(mib)) && (divisions == "0" || is_power_of_two(divisions));
  });
}

/// A multiple of the device's memory, or bytes with a unit.
bool is_reserve(std::string_view text) {
  const auto factor = read_number(text);
  return factor ? *factor > 0 : read_bytes(text, 1).has_value();
}

struct TorchKey {
  EntryKey is;
  bool (*set)(Settings&, std::string_view);
  std::string_view remark;  ///< why the key has no effect; empty if it has one
};

using Text = std::string_view;

constexpr std::string_view kBool = "True or False";
constexpr std::string_view kMib = "a whole number of MB";
constexpr EntryKey kMaxSplit = {"max_split_size_mb",
                                "a whole number of MB, large_segment_size_mb or more, which is 20"};
constexpr EntryKey kMaxRounding = {"max_non_split_rounding_mb", kMaxSplit.accepted};

constexpr TorchKey kTorchKeys[] = {
    {{"backend", "native, which berth replaces"},
     [](Settings&, Text t) { return t == "native"; },
     ""},
    {{"expandable_segments", kBool},
     [](Settings& s, Text t) { return keep(s.expandable_segments, read_bool(t)); },
     ""},
    {{"per_process_memory_fraction", "a number from 0 to 1"},
     [](Settings& s, Text t) { return keep(s.fraction, read_fraction(t)); },
     ""},
    {{"garbage_collection_threshold", "a number above 0 and below 1"},
     [](Settings& s, Text t) {
       return keep(s.threshold, read_fraction(t)) && *s.threshold > 0 && *s.threshold < 1;
     },
     ""},
    {kMaxSplit,
     [](Settings& s, Text t) { return keep(s.max_split_mib, read_count(t, 0, kMibMax)); },
     "berth joins free memory that lies apart instead"},
    {kMaxRounding,
     [](Settings& s, Text t) { return keep(s.max_rounding_mib, read_count(t, 0, kMibMax)); },
     "berth rounds no block to more than 512 bytes"},
    {{"roundup_power2_divisions",
      "a power of two, or a list such as [256:1,512:2,>:8] of powers of two, with 0 for none"},
     is_divisions,
     "berth rounds no block to more than 512 bytes"},
    {{"large_segment_size_mb", "a whole number of MB above 10"},
     [](Settings& s, Text t) {
       const auto mib = read_count(t, 11, kMibMax);
       s.large_segment_mib = mib.value_or(s.large_segment_mib);
       return mib.has_value();
     },
     "berth obtains as many granules as are missing; without them segment_bytes counts"},
    {{"expandable_segments_reserve", "a number above 0, or bytes such as 40G"},
     [](Settings&, Text t) { return is_reserve(t); },
     "berth reserves one range of addresses for all streams"},
    {{"expandable_segments_reserve_by_class", "a list such as [name:0.5,other:40G]"},
     [](Settings&, Text t) {
       return is_list(t,
                      [](Text name, Text reserve) { return !name.empty() && is_reserve(reserve); });
     },
     "berth reserves one range of addresses for all streams"},
    {{"release_lock_on_cudamalloc", kBool},
     is_bool,
     "berth holds no lock during a driver call that a cached block would wait for"},
    {{"graph_capture_record_stream_reuse", kBool},
     is_bool,
     "berth reuses a recorded block when the events behind its uses have passed"},
    {{"throw_on_cudamalloc_oom", kBool},
     is_bool,
     "berth rejects requests beyond its limit without a driver call"},
    {{"pinned_use_cuda_host_register", kBool},
     [](Settings& s, Text t) { return keep(s.registers_pinned, read_bool(t)); },
     ""},
    {{"pinned_num_register_threads", "a power of two up to 128"},
     [](Settings& s, Text t) {
       return is_power_of_two(t) && keep(s.register_threads, read_count(t, 1, 128));
     },
     ""},
    {{"pinned_reserve_segment_size_mb", "a whole number of MB above 0"},
     [](Settings&, Text t) { return read_count(t, 1, kMibMax).has_value(); },
     "berth pins segments as they are needed, of pinned_segment_bytes"},
    {{"pinned_use_background_threads", kBool},
     is_bool,
     "berth queries events only if it needs a block; pinned_low_water_bytes sets what it pins in "
     "the background"},
    {{"pinned_max_round_threshold_mb", kMib},
     is_mib,
     "berth rounds no pinned block to a power of two"},
    {{"pinned_max_cached_size_mb", kMib},
     is_mib,
     "berth caches pinned blocks of every size; how much in all pinned_bytes_cached_max says"},
    {{"pinned_free_catch_all", kBool},
     is_bool,
     "berth reports what goes wrong in a destructor, and throws nothing there"},
};

void check_against_segments(const Settings& settings, char equals, ConfigurationErrors& errors) {
  const auto check = [&](const EntryKey& key, std::optional<std::uint64_t> mib) {
    if (mib && *mib < settings.large_segment_mib)
      errors.add_value(key, equals, std::to_string(*mib));
  };
  check(kMaxSplit, settings.max_split_mib);
  check(kMaxRounding, settings.max_rounding_mib);
}

/// The threshold is a part of the limit, as it is in PyTorch.
MemoryAmount soft_max(const MemoryLimits& limits, double threshold) {
  if (!limits.bytes_reserved_max) return MemoryAmount::part_of_device(threshold);
  if (const auto part = limits.bytes_reserved_max->part())
    return MemoryAmount::part_of_device(*part * threshold);
  const auto bytes = static_cast<double>(limits.bytes_reserved_max->bytes(0));
  return static_cast<std::size_t>(bytes * threshold);
}

}  // namespace

PytorchConfiguration configure_like_pytorch(RuntimeOptions options, std::string_view text) {
  EntryGrammar grammar{
      .equals = ':', .example = "key:value such as expandable_segments:True", .lists = true};
  for (const TorchKey& key : kTorchKeys) grammar.keys.push_back(key.is);

  Settings settings;
  std::vector<std::string> remarks;
  ConfigurationErrors errors = read_entries(text, grammar, [&](std::size_t index, Text value) {
    const TorchKey& key = kTorchKeys[index];
    if (!key.set(settings, value)) return false;
    if (!key.remark.empty()) remarks.push_back(format_text("{}: {}", key.is.name, key.remark));
    return true;
  });
  check_against_segments(settings, grammar.equals, errors);
  errors.throw_if_any("PyTorch's configuration");

  DeviceAllocatorOptions& device = options.device_allocator;
  if (settings.expandable_segments) device.virtual_memory = *settings.expandable_segments;
  if (settings.fraction)
    device.limits.bytes_reserved_max = MemoryAmount::part_of_device(*settings.fraction);
  if (settings.threshold) {
    if (!device.limits.bytes_reserved_max)
      remarks.push_back(
          "garbage_collection_threshold: of the whole device; PyTorch applies it only if a "
          "per_process_memory_fraction below 1 is set");
    device.limits.bytes_reserved_soft_max = soft_max(device.limits, *settings.threshold);
  }
  PinnedAllocatorOptions& pinned = options.pinned_allocator;
  if (settings.register_threads)
    pinned.prefault_threads = static_cast<unsigned>(*settings.register_threads);
  if (settings.registers_pinned == false) pinned.prefault_threads = 0;
  return {std::move(options), std::move(remarks)};
}

}  // namespace berth
