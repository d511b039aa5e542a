// SPDX-License-Identifier: Apache-2.0
#include "berth/configuration.hpp"

#include <algorithm>
#include <bit>
#include <optional>
#include <utility>

#include "berth/bytes.hpp"

#include "base/env.hpp"
#include "copy/staged/copy_workers.hpp"
#include "copy/staged/staging_memory.hpp"
#include "runtime/driver_choice.hpp"
#include "runtime/entry_list.hpp"
#include "runtime/option_text.hpp"
#include "runtime/pjrt_text.hpp"

namespace berth {
namespace {

constexpr const char* kVariable = "BERTH_CONF";

template <class T, class Value>
bool assign(T& target, const std::optional<Value>& value) {
  if (value) target = static_cast<T>(*value);
  return value.has_value();
}

/// The same for an option that may have no value, which is written as `word`.
template <class T>
bool assign_or(std::string_view word, std::optional<T>& target, std::string_view text,
               std::optional<T> (*read)(std::string_view)) {
  if (text != word) return assign(target, read(text));
  target = std::nullopt;
  return true;
}

bool assign_bytes_or_none(std::optional<std::size_t>& target, std::string_view text) {
  return assign_or<std::size_t>("none", target, text,
                                [](std::string_view bytes) { return read_bytes(bytes); });
}

template <class T>
std::string text_or(std::string_view word, const std::optional<T>& value, std::string (*write)(T)) {
  return value ? write(*value) : std::string(word);
}

std::optional<std::string> read_driver(std::string_view text) {
  // A path becomes part of messages of one line, and a C string for the loader.
  const bool on_one_line = std::ranges::none_of(
      text, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; });
  return on_one_line && names_driver(text) ? std::optional(std::string(text)) : std::nullopt;
}

// No device maps less than a page; the allocator counts bytes of a granule in 32 bits.
constexpr std::size_t kGranuleMin = 4_KiB;
constexpr std::size_t kGranuleMax = 2_GiB;

std::optional<std::size_t> read_granule(std::string_view text) {
  const auto bytes = read_bytes(text);
  const bool is_granule =
      bytes && std::has_single_bit(*bytes) && *bytes >= kGranuleMin && *bytes <= kGranuleMax;
  return is_granule || bytes == 0 ? bytes : std::nullopt;
}

std::optional<std::size_t> read_segment_bytes(std::string_view text) {
  const auto bytes = read_bytes(text, 64_KiB);
  return bytes && *bytes <= 1_GiB ? bytes : std::nullopt;
}

std::optional<double> read_part(std::string_view text) {
  const auto amount = read_amount(text);
  return amount ? amount->part() : std::nullopt;
}

std::string part_text(double part) {
  return amount_text(MemoryAmount::part_of_device(part));
}

std::optional<std::size_t> read_piece_bytes(std::string_view text) {
  const auto bytes = read_bytes(text, 64_KiB);
  return bytes && *bytes % 4_KiB == 0 ? bytes : std::nullopt;
}

std::optional<std::size_t> read_slot_bytes(std::string_view text) {
  const auto bytes = read_piece_bytes(text);
  return bytes && *bytes <= StagingMemory::kSlotBytesMax ? bytes : std::nullopt;
}

std::optional<std::size_t> read_workers(std::string_view text) {
  const auto count = read_count(text, 1);
  return count && *count <= CopyWorkers::kMax ? count : std::nullopt;
}

std::string count_text(std::size_t count) {
  return std::to_string(count);
}

constexpr Word<CrossStreamReuse> kReuses[] = {
    {CrossStreamReuse::never, "never"},
    {CrossStreamReuse::when_idle, "when_idle"},
    {CrossStreamReuse::behind_waits, "behind_waits"},
    {CrossStreamReuse::before_growth, "before_growth"},
};

constexpr Word<StreamShortage> kShortages[] = {
    {StreamShortage::share, "share"},
    {StreamShortage::wait, "wait"},
    {StreamShortage::fail, "fail"},
};

constexpr Word<StagingShortage> kStagingShortages[] = {
    {StagingShortage::share, "share"},
    {StagingShortage::grow, "grow"},
    {StagingShortage::fall_back, "fall_back"},
};

constexpr Word<CopyGates> kCopyGates[] = {
    {CopyGates::automatic, "auto"},
    {CopyGates::on, "on"},
    {CopyGates::off, "off"},
};

struct Key {
  EntryKey is;
  bool (*set)(RuntimeOptions&, std::string_view);  ///< false: changed nothing
  std::string (*get)(const RuntimeOptions&);
};

using Options = RuntimeOptions;
using Text = std::string_view;

// Limits that only the device knows, such as its minimum granule, are checked when the part is
// created.
constexpr Key kKeys[] = {
    {{"driver", kAcceptedDrivers},
     [](Options& o, Text t) { return assign(o.driver, read_driver(t)); },
     [](const Options& o) { return o.driver; }},
    {{"bytes_reserved_max", "bytes such as 60GiB, a part of the device such as 90%, or none"},
     [](Options& o, Text t) {
       return assign_or("none", o.device_allocator.limits.bytes_reserved_max, t, read_amount);
     },
     [](const Options& o) {
       return text_or("none", o.device_allocator.limits.bytes_reserved_max, amount_text);
     }},
    {{"bytes_reserved_soft_max", "bytes such as 60GiB, a part of the device such as 80%, or none"},
     [](Options& o, Text t) {
       return assign_or("none", o.device_allocator.limits.bytes_reserved_soft_max, t, read_amount);
     },
     [](const Options& o) {
       return text_or("none", o.device_allocator.limits.bytes_reserved_soft_max, amount_text);
     }},
    {{"headroom_bytes", "bytes such as 2GiB, or a part of the device such as 5%"},
     [](Options& o, Text t) { return assign(o.device_allocator.headroom_bytes, read_amount(t)); },
     [](const Options& o) { return amount_text(o.device_allocator.headroom_bytes); }},
    {{"release_unused_after", "a time from 1ms to 8760h such as 500ms, 10s, 2min or 1h, or never"},
     [](Options& o, Text t) {
       return assign_or("never", o.device_allocator.release_unused_after, t, read_time);
     },
     [](const Options& o) {
       return text_or("never", o.device_allocator.release_unused_after, time_text);
     }},
    {{"cross_stream_reuse", "never, when_idle, behind_waits or before_growth"},
     [](Options& o, Text t) {
       return assign(o.device_allocator.cross_stream_reuse, read_word(t, kReuses));
     },
     [](const Options& o) {
       return word_text("DeviceAllocatorOptions::cross_stream_reuse",
                        o.device_allocator.cross_stream_reuse, kReuses);
     }},
    {{"virtual_memory", "on or off"},
     [](Options& o, Text t) { return assign(o.device_allocator.virtual_memory, read_switch(t)); },
     [](const Options& o) { return switch_text(o.device_allocator.virtual_memory); }},
    {{"granule_bytes", "a power of two from 4KiB to 2GiB such as 2MiB, or 0 for the device's own"},
     [](Options& o, Text t) { return assign(o.device_allocator.granule_bytes, read_granule(t)); },
     [](const Options& o) { return bytes_text(o.device_allocator.granule_bytes); }},
    {{"segment_bytes", "bytes such as 20MiB, 2MiB or more"},
     [](Options& o, Text t) {
       return assign(o.device_allocator.segment_bytes, read_bytes(t, 2_MiB));
     },
     [](const Options& o) { return bytes_text(o.device_allocator.segment_bytes); }},
    {{"pinned_bytes_reserved_max", "bytes such as 16GiB, or none"},
     [](Options& o, Text t) {
       return assign_bytes_or_none(o.pinned_allocator.bytes_reserved_max, t);
     },
     [](const Options& o) {
       return text_or("none", o.pinned_allocator.bytes_reserved_max, bytes_text);
     }},
    {{"pinned_bytes_cached_max", "bytes such as 4GiB, or none"},
     [](Options& o, Text t) {
       return assign_bytes_or_none(o.pinned_allocator.bytes_cached_max, t);
     },
     [](const Options& o) {
       return text_or("none", o.pinned_allocator.bytes_cached_max, bytes_text);
     }},
    {{"pinned_slack_max", "a part such as 5%, or none"},
     [](Options& o, Text t) {
       return assign_or("none", o.pinned_allocator.slack_max, t, read_part);
     },
     [](const Options& o) { return text_or("none", o.pinned_allocator.slack_max, part_text); }},
    {{"pinned_segment_bytes", "bytes such as 16MiB, 64KiB to 1GiB"},
     [](Options& o, Text t) {
       return assign(o.pinned_allocator.segment_bytes, read_segment_bytes(t));
     },
     [](const Options& o) { return bytes_text(o.pinned_allocator.segment_bytes); }},
    {{"pinned_prefault_threads", "0 to 128, 0 for pages that the driver allocates"},
     [](Options& o, Text t) {
       return assign(o.pinned_allocator.prefault_threads, read_count(t, 0, 128));
     },
     [](const Options& o) { return std::to_string(o.pinned_allocator.prefault_threads); }},
    {{"pinned_low_water_bytes", "bytes such as 256MiB, or 0 for none"},
     [](Options& o, Text t) { return assign(o.pinned_allocator.low_water_bytes, read_bytes(t)); },
     [](const Options& o) { return bytes_text(o.pinned_allocator.low_water_bytes); }},
    {{"host_bytes_reserved_max", "bytes such as 64GiB, or none"},
     [](Options& o, Text t) {
       return assign_bytes_or_none(o.host_allocator.bytes_reserved_max, t);
     },
     [](const Options& o) {
       return text_or("none", o.host_allocator.bytes_reserved_max, bytes_text);
     }},
    {{"streams_max", "1 or more"},
     [](Options& o, Text t) { return assign(o.stream_pool.streams_max, read_count(t, 1)); },
     [](const Options& o) { return std::to_string(o.stream_pool.streams_max); }},
    {{"streams_on_shortage", "share, wait or fail"},
     [](Options& o, Text t) { return assign(o.stream_pool.on_shortage, read_word(t, kShortages)); },
     [](const Options& o) {
       return word_text("StreamPoolOptions::on_shortage", o.stream_pool.on_shortage, kShortages);
     }},
    {{"events_max", "1 or more"},
     [](Options& o, Text t) { return assign(o.event_pool.events_max, read_count(t, 1)); },
     [](const Options& o) { return std::to_string(o.event_pool.events_max); }},
    {{"staging_slot_bytes", "bytes such as 4MiB, 64KiB to 1GiB, a multiple of 4KiB"},
     [](Options& o, Text t) { return assign(o.copier.staging_slot_bytes, read_slot_bytes(t)); },
     [](const Options& o) { return bytes_text(o.copier.staging_slot_bytes); }},
    {{"staging_slots", "2 to 65536"},
     [](Options& o, Text t) {
       return assign(o.copier.staging_slots, read_count(t, 2, StagingMemory::kSlotsMax));
     },
     [](const Options& o) { return std::to_string(o.copier.staging_slots); }},
    {{"staging_on_shortage", "share, grow or fall_back"},
     [](Options& o, Text t) {
       return assign(o.copier.staging_on_shortage, read_word(t, kStagingShortages));
     },
     [](const Options& o) {
       return word_text("CopierOptions::staging_on_shortage", o.copier.staging_on_shortage,
                        kStagingShortages);
     }},
    {{"copy_gates", "auto, on or off"},
     [](Options& o, Text t) { return assign(o.copier.gates, read_word(t, kCopyGates)); },
     [](const Options& o) {
       return word_text("CopierOptions::gates", o.copier.gates, kCopyGates);
     }},
    {{"copy_workers", "default, or 1 to 64"},
     [](Options& o, Text t) { return assign_or("default", o.copier.workers, t, read_workers); },
     [](const Options& o) { return text_or("default", o.copier.workers, count_text); }},
    {{"copy_file_workers", "1 to 64"},
     [](Options& o, Text t) { return assign(o.copier.file_workers, read_workers(t)); },
     [](const Options& o) { return count_text(o.copier.file_workers); }},
    {{"copy_direct_piece_bytes", "bytes such as 8MiB, 64KiB or more, a multiple of 4KiB"},
     [](Options& o, Text t) { return assign(o.copier.direct_piece_bytes, read_piece_bytes(t)); },
     [](const Options& o) { return bytes_text(o.copier.direct_piece_bytes); }},
    {{"copy_batched_range_bytes_min", "bytes such as 28KiB, 0 for all, or none"},
     [](Options& o, Text t) { return assign_bytes_or_none(o.copier.batched_range_bytes_min, t); },
     [](const Options& o) {
       return text_or("none", o.copier.batched_range_bytes_min, bytes_text);
     }},
    {{"copy_packed_range_bytes_max", "bytes such as 7KiB, or 0 for none"},
     [](Options& o, Text t) { return assign(o.copier.packed_range_bytes_max, read_bytes(t)); },
     [](const Options& o) { return bytes_text(o.copier.packed_range_bytes_max); }},
    {{"pjrt", kAcceptedPjrt},
     [](Options& o, Text t) { return assign(o.pjrt, read_pjrt(t)); },
     [](const Options& o) { return pjrt_text(o.pjrt); }},
};

EntryGrammar grammar() {
  EntryGrammar grammar{.equals = '=', .example = "key=value such as virtual_memory=off"};
  for (const Key& key : kKeys) grammar.keys.push_back(key.is);
  return grammar;
}

/// `options` is already a copy, so nothing is changed if this throws.
RuntimeOptions configured(RuntimeOptions options, std::string_view text, std::string_view source) {
  const auto set = [&options](std::size_t key, std::string_view value) {
    return kKeys[key].set(options, value);
  };
  read_entries(text, grammar(), set).throw_if_any(source);
  return options;
}

}  // namespace

RuntimeOptions configure(RuntimeOptions options, std::string_view text) {
  return configured(std::move(options), text, "configuration");
}

RuntimeOptions configure_from_environment(RuntimeOptions options) {
  const auto text = trusted_env(kVariable);
  return text ? configured(std::move(options), *text, kVariable) : options;
}

std::vector<ConfigurationEntry> describe(const RuntimeOptions& options) {
  std::vector<ConfigurationEntry> entries;
  for (const Key& key : kKeys) {
    entries.push_back({.key = std::string(key.is.name),
                       .value = key.get(options),
                       .accepted = std::string(key.is.accepted)});
  }
  return entries;
}

}  // namespace berth
