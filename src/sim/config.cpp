// SPDX-License-Identifier: Apache-2.0
#include "sim/config.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <iterator>
#include <optional>

#include "berth/error.hpp"

#include "base/format.hpp"
#include "base/nearest_word.hpp"
#include "base/quoted.hpp"
#include "base/text_list.hpp"
#include "sim/config_checks.hpp"

namespace berth::sim {
namespace {

constexpr std::uint64_t kMemoryMax = 16ULL << 40;

/// Thrown by a setter; parse() adds the entry.
struct RejectedValue {};

template <class T>
T number(std::string_view text, T smallest, T largest) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool is_number = error == std::errc{} && end == text.data() + text.size();
  if (!is_number || value < smallest || value > largest) throw RejectedValue{};
  return value;
}

std::uint64_t bytes(std::string_view text, std::uint64_t smallest, std::uint64_t largest) {
  std::uint64_t value = 0;
  try {
    value = parse_bytes(text);
  } catch (const InvalidArgument&) {
    throw RejectedValue{};
  }
  if (value < smallest || value > largest) throw RejectedValue{};
  return value;
}

/// The position of `text` in `words`.
template <std::size_t N>
std::size_t choice(std::string_view text, const std::array<std::string_view, N>& words) {
  for (std::size_t i = 0; i < N; ++i)
    if (words[i] == text) return i;
  throw RejectedValue{};
}

constexpr std::array<std::string_view, 2> kSwitch = {"off", "on"};
constexpr std::array<std::string_view, 4> kProgress = {"eager", "manual", "random", "timed"};
constexpr std::array<std::string_view, 2> kOrder = {"pci", "reverse"};
constexpr std::array<std::string_view, 3> kPageableAccess = {"none", "page_faults",
                                                             "host_page_tables"};
constexpr std::array<std::string_view, 3> kLaunchBlocking = {"off", "on", "all"};
constexpr std::array<std::string_view, 2> kThreads = {"together", "apart"};
constexpr std::array<std::string_view, 2> kOnFinding = {"report", "abort"};
constexpr std::array<std::string_view, 3> kKernels = {"refuse", "skip", "host"};

struct Check {
  std::string_view name;
  bool Checks::*member;
};
constexpr Check kChecks[] = {{"race", &Checks::races},
                             {"aliasing", &Checks::aliasing},
                             {"leak", &Checks::leaks},
                             {"fault", &Checks::faults}};

Checks parse_checks(std::string_view text) {
  if (text == "on" || text == "off") return text == "on";
  Checks checks = false;
  for (const std::string_view part : split(text, '/')) {
    const auto* const named = std::ranges::find(kChecks, part, &Check::name);
    if (named == std::end(kChecks)) throw RejectedValue{};
    checks.*named->member = true;
  }
  return checks;
}

std::string checks_text(const Checks& checks) {
  if (checks == Checks(true)) return "on";
  std::vector<std::string_view> names;
  for (const Check& check : kChecks)
    if (checks.*check.member) names.push_back(check.name);
  return names.empty() ? "off" : format_text("{}", join_texts(names, "/"));
}

constexpr std::string_view kNoNode = "none";
constexpr std::string_view kOff = "off";
constexpr std::string_view kAuto = "auto";

// Settings that are one value for all devices, or one for each, as in "80GiB/40GiB".
template <class Read>
auto read_each(std::string_view text, const Read& read) {
  std::vector<decltype(read(text))> values;
  for (const std::string_view part : split(text, '/')) values.push_back(read(trim(part)));
  return values;
}
template <class Value, class Write>
std::string text_of_each(const std::vector<Value>& values, const Write& write) {
  std::vector<std::string> texts;
  for (const Value of_one : values) texts.push_back(write(of_one));
  return join_texts(texts, "/");
}
auto value_for(const auto& values, int physical) {
  return values.size() == 1 ? values.front() : values.at(static_cast<std::size_t>(physical));
}

struct Key {
  std::string_view name;
  std::string_view accepted;
  void (*set)(Config&, std::string_view);
  std::string (*get)(const Config&);
};

constexpr Key kKeys[] = {
    {"devices", "1 to 64", [](Config& c, std::string_view v) { c.devices = number(v, 1, 64); },
     [](const Config& c) { return std::to_string(c.devices); }},
    {"memory",
     "bytes such as 80GiB, from one granule to 16 TiB, for all devices or one a device as in "
     "80GiB/40GiB",
     [](Config& c, std::string_view v) {
       c.memory = read_each(v, [](std::string_view part) { return bytes(part, 1, kMemoryMax); });
     },
     [](const Config& c) {
       return text_of_each(c.memory, [](std::uint64_t of_one) { return std::to_string(of_one); });
     }},
    {"progress", "eager, manual, random or timed",
     [](Config& c, std::string_view v) {
       c.progress = static_cast<Progress>(choice(v, kProgress));
     },
     [](const Config& c) { return std::string(kProgress[static_cast<std::size_t>(c.progress)]); }},
    {"seed", "0 to 18446744073709551615",
     [](Config& c, std::string_view v) { c.seed = number<std::uint64_t>(v, 0, UINT64_MAX); },
     [](const Config& c) { return std::to_string(c.seed); }},
    {"jitter", "0 to 90 percent",
     [](Config& c, std::string_view v) { c.jitter_percent = number(v, 0, 90); },
     [](const Config& c) { return std::to_string(c.jitter_percent); }},
    {"name", "1 to 64 characters",
     [](Config& c, std::string_view v) {
       if (v.empty() || v.size() > 64) throw RejectedValue{};
       c.name = v;
     },
     [](const Config& c) { return c.name; }},
    {"granularity", "a power of two from 4KiB to 1GiB",
     [](Config& c, std::string_view v) {
       c.granularity = bytes(v, 4_KiB, 1_GiB);
       if (!std::has_single_bit(c.granularity)) throw RejectedValue{};
     },
     [](const Config& c) { return std::to_string(c.granularity); }},
    {"vmm", "on or off", [](Config& c, std::string_view v) { c.vmm = choice(v, kSwitch) == 1; },
     [](const Config& c) { return std::string(kSwitch[c.vmm]); }},
    {"fabric", "on or off",
     [](Config& c, std::string_view v) { c.fabric = choice(v, kSwitch) == 1; },
     [](const Config& c) { return std::string(kSwitch[c.fabric]); }},
    {"rdma", "on or off", [](Config& c, std::string_view v) { c.rdma = choice(v, kSwitch) == 1; },
     [](const Config& c) { return std::string(kSwitch[c.rdma]); }},
    {"peer", "on or off", [](Config& c, std::string_view v) { c.peer = choice(v, kSwitch) == 1; },
     [](const Config& c) { return std::string(kSwitch[c.peer]); }},
    {"driver_version", "11040 to 99990",
     [](Config& c, std::string_view v) { c.driver_version = number(v, 11040, 99990); },
     [](const Config& c) { return std::to_string(c.driver_version); }},
    {"host_memory", "bytes such as 64GiB, at most 16 TiB",
     [](Config& c, std::string_view v) { c.host_memory = bytes(v, 0, kMemoryMax); },
     [](const Config& c) { return std::to_string(c.host_memory); }},
    {"order", "pci or reverse",
     [](Config& c, std::string_view v) { c.order = static_cast<DeviceOrder>(choice(v, kOrder)); },
     [](const Config& c) { return std::string(kOrder[static_cast<std::size_t>(c.order)]); }},
    {"stall_ms", "1 to 3600000",
     [](Config& c, std::string_view v) { c.stall_ms = number(v, 1, 3600000); },
     [](const Config& c) { return std::to_string(c.stall_ms); }},
    {"silence_ms", "0 to 3600000, 0 for never, or auto: 250, but 0 for a Simulator of a test",
     [](Config& c, std::string_view v) {
       if (v == kAuto)
         c.silence_ms = std::nullopt;
       else
         c.silence_ms = number(v, 0, 3600000);
     },
     [](const Config& c) {
       return c.silence_ms ? std::to_string(*c.silence_ms) : std::string(kAuto);
     }},
    {"poison", "on or off",
     [](Config& c, std::string_view v) { c.poison = choice(v, kSwitch) == 1; },
     [](const Config& c) { return std::string(kSwitch[c.poison]); }},
    {"registration_limit", "bytes such as 512GiB, at most 16 TiB",
     [](Config& c, std::string_view v) { c.registration_limit = bytes(v, 1, kMemoryMax); },
     [](const Config& c) { return std::to_string(c.registration_limit); }},
    {"numa", "a node from 0 to 1023 or none, for all devices or one a device as in 0/1",
     [](Config& c, std::string_view v) {
       c.numa = read_each(
           v, [](std::string_view part) { return part == kNoNode ? -1 : number(part, 0, 1023); });
     },
     [](const Config& c) {
       return text_of_each(
           c.numa, [](int node) { return node < 0 ? std::string(kNoNode) : std::to_string(node); });
     }},
    {"same_host_address", "on or off",
     [](Config& c, std::string_view v) { c.same_host_address = choice(v, kSwitch) == 1; },
     [](const Config& c) { return std::string(kSwitch[c.same_host_address]); }},
    {"pageable_access", "none, page_faults or host_page_tables",
     [](Config& c, std::string_view v) {
       c.pageable_access = static_cast<PageableAccess>(choice(v, kPageableAccess));
     },
     [](const Config& c) {
       return std::string(kPageableAccess[static_cast<std::size_t>(c.pageable_access)]);
     }},
    {"faults", "rules such as cuMemCreate@3=out_of_memory",
     [](Config& c, std::string_view v) { c.faults = FaultPlan::parse(v); },
     [](const Config& c) { return c.faults.text(); }},
    {"checks", "on, off, or some of race, aliasing, leak and fault as in race/leak",
     [](Config& c, std::string_view v) { c.checks = parse_checks(v); },
     [](const Config& c) { return checks_text(c.checks); }},
    {"on_finding", "report or abort",
     [](Config& c, std::string_view v) {
       c.on_finding = static_cast<OnFinding>(choice(v, kOnFinding));
     },
     [](const Config& c) {
       return std::string(kOnFinding[static_cast<std::size_t>(c.on_finding)]);
     }},
    {"call_sites", "on or off",
     [](Config& c, std::string_view v) { c.call_sites = choice(v, kSwitch) == 1; },
     [](const Config& c) { return std::string(kSwitch[c.call_sites]); }},
    {"threads", "together or apart",
     [](Config& c, std::string_view v) {
       c.threads = static_cast<HostThreads>(choice(v, kThreads));
     },
     [](const Config& c) { return std::string(kThreads[static_cast<std::size_t>(c.threads)]); }},
    {"log", "off, on, or the name of a file",
     [](Config& c, std::string_view v) {
       if (v.empty() || v.size() > 4096) throw RejectedValue{};
       c.log = v;
     },
     [](const Config& c) { return c.log; }},
    {"mig", "off, or device:instances as in 0:2/3:7, 0 to 7 instances a device",
     [](Config& c, std::string_view v) {
       const std::optional<MigDevices> mig = parse_mig(v);
       if (!mig) throw RejectedValue{};
       c.mig = *mig;
     },
     [](const Config& c) { return mig_text(c.mig); }},
    {"connections", "1 to 32, off, or auto: CUDA_DEVICE_MAX_CONNECTIONS, or 8",
     [](Config& c, std::string_view v) {
       if (v == kAuto)
         c.connections = std::nullopt;
       else
         c.connections = v == kOff ? 0 : number(v, 1, kConnectionsMax);
     },
     [](const Config& c) {
       if (!c.connections) return std::string(kAuto);
       return *c.connections == 0 ? std::string(kOff) : std::to_string(*c.connections);
     }},
    {"queue", "1 to 1048576 entries, or off",
     [](Config& c, std::string_view v) { c.queue_entries = v == kOff ? 0 : number(v, 1, 1 << 20); },
     [](const Config& c) {
       return c.queue_entries == 0 ? std::string(kOff) : std::to_string(c.queue_entries);
     }},
    {"driver_lock", "on or off",
     [](Config& c, std::string_view v) { c.driver_lock = choice(v, kSwitch) == 1; },
     [](const Config& c) { return std::string(kSwitch[c.driver_lock]); }},
    {"launch_blocking", "on, off, all, or auto: CUDA_LAUNCH_BLOCKING",
     [](Config& c, std::string_view v) {
       if (v == kAuto)
         c.launch_blocking = std::nullopt;
       else
         c.launch_blocking = static_cast<LaunchBlocking>(choice(v, kLaunchBlocking));
     },
     [](const Config& c) {
       if (!c.launch_blocking) return std::string(kAuto);
       return std::string(kLaunchBlocking[static_cast<std::size_t>(*c.launch_blocking)]);
     }},
    {"memory_operations", "on or off, for all devices or one a device as in on/off",
     [](Config& c, std::string_view v) {
       c.memory_operations =
           read_each(v, [](std::string_view part) { return choice(part, kSwitch) == 1; });
     },
     [](const Config& c) {
       return text_of_each(c.memory_operations,
                           [](bool of_one) { return std::string(kSwitch[of_one]); });
     }},
    {"kernels", "refuse, skip or host",
     [](Config& c, std::string_view v) { c.kernels = static_cast<Kernels>(choice(v, kKernels)); },
     [](const Config& c) { return std::string(kKernels[static_cast<std::size_t>(c.kernels)]); }},
};

const Key* find_key(std::string_view name) {
  for (const Key& key : kKeys)
    if (key.name == name) return &key;
  return nullptr;
}

}  // namespace

bool Checks::wants(std::string_view kind) const {
  for (const Check& check : kChecks)
    if (check.name == kind) return this->*check.member;
  return true;
}

int Config::places() const {
  int places = devices;
  for (const auto& [slot, instances] : mig) places += instances;
  return places;
}

std::uint64_t Config::memory_of(int physical) const {
  return value_for(memory, physical);
}

int Config::numa_of(int physical) const {
  return value_for(numa, physical);
}

bool Config::memory_operations_of(int physical) const {
  return value_for(memory_operations, physical);
}

Config Config::parse(std::string_view text) {
  Config config;
  if (trim(text).empty()) return config;
  std::uint64_t seen = 0;
  for (const std::string_view entry : split(text, ',')) {
    const auto equals = entry.find('=');
    const std::string_view name = trim(entry.substr(0, equals));
    const Key* key = find_key(name);
    if (equals == std::string_view::npos || key == nullptr) {
      std::vector<std::string_view> names;
      for (const Key& known : kKeys) names.push_back(known.name);
      if (const std::string_view near = nearest_word(name, names);
          equals != entry.npos && !near.empty())
        throw InvalidArgument(
            format_text("simulator: {} is not a setting; perhaps {}", quoted(trim(entry)), near));
      throw InvalidArgument(
          format_text("simulator: {} is not a setting; accepted: key=value with the keys {}",
                      quoted(trim(entry)), join_texts(names, ", ")));
    }
    const std::uint64_t bit = std::uint64_t{1} << (key - kKeys);
    if ((seen & bit) != 0)
      throw InvalidArgument(format_text("simulator: {} is set twice; accepted: once", name));
    seen |= bit;
    const std::string_view value = trim(entry.substr(equals + 1));
    try {
      key->set(config, value);
    } catch (const RejectedValue&) {
      throw InvalidArgument(format_text("simulator: {}={} is not accepted; accepted: {}", name,
                                        quoted(value), key->accepted));
    }
  }
  check_settings(config);
  return config;
}

std::string Config::to_text() const {
  std::vector<std::string> texts;
  for (const Key& key : kKeys) texts.push_back(format_text("{}={}", key.name, key.get(*this)));
  return join_texts(texts, ",");
}

}  // namespace berth::sim
