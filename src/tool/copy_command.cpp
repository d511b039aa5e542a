// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "berth/bytes.hpp"

#include "tool/command.hpp"
#include "tool/json_text.hpp"
#include "tool/measured_copies.hpp"
#include "tool/output.hpp"
#include "tool/printable.hpp"
#include "tool/progress_bar.hpp"
#include "tool/session.hpp"
#include "tool/table.hpp"

namespace berth::tool {
namespace {

struct CopyCommandOptions {
  CommonOptions common;
  std::vector<std::string> sizes = {"4KiB", "64KiB", "1MiB", "16MiB", "256MiB"};
  std::vector<std::string> directions;  ///< empty: all available ones
  std::vector<std::string> kinds = {"pageable", "pinned"};
  int repeats = 5;
  bool check = false;
  std::string device = "cuda";
};

constexpr CopyDirection kDirections[] = {CopyDirection::in, CopyDirection::out,
                                         CopyDirection::within, CopyDirection::peer};
constexpr std::size_t kBarWidth = 30;

std::string known_directions() {
  std::vector<std::string_view> names;
  for (const CopyDirection direction : kDirections) names.push_back(name_of(direction));
  return fmt::format("{}", fmt::join(names, ", "));
}

CopyDirection parse_direction(const std::string& text) {
  for (const CopyDirection direction : kDirections)
    if (text == name_of(direction)) return direction;
  throw UsageError(fmt::format("--directions: {} is none; accepted: {}", quoted_argument(text),
                               known_directions()));
}

bool parse_is_pinned(const std::string& text) {
  if (text != "pinned" && text != "pageable")
    throw UsageError(
        fmt::format("--kinds: {} is none; accepted: pageable, pinned", quoted_argument(text)));
  return text == "pinned";
}

std::size_t parse_size(const std::string& text) {
  const std::size_t bytes = parse_option("--sizes", text, parse_bytes);
  if (bytes == 0) throw UsageError("--sizes: 0 is nothing to copy; accepted: 1 B or more");
  return bytes;
}

CopyDevices find_devices(const Runtime& runtime, Device device) {
  const int count = runtime.devices().count();
  return {device, count > 1 ? Device::cuda((device.ordinal() + 1) % count) : device};
}

/// In the order in which they are shown: a series of sizes for each direction and kind.
std::vector<CopyCase> cases(const CopyCommandOptions& options, bool has_peer) {
  std::vector<CopyDirection> directions;
  for (const std::string& text : options.directions) directions.push_back(parse_direction(text));
  if (directions.empty())
    std::ranges::copy_if(kDirections, std::back_inserter(directions),
                         [&](CopyDirection d) { return has_peer || d != CopyDirection::peer; });
  std::vector<bool> kinds;
  for (const std::string& text : options.kinds) kinds.push_back(parse_is_pinned(text));
  std::vector<std::size_t> sizes;
  for (const std::string& text : options.sizes) sizes.push_back(parse_size(text));

  std::vector<CopyCase> cases;
  for (const CopyDirection direction : directions) {
    if (direction == CopyDirection::peer && !has_peer)
      throw NoDeviceError("--directions: peer wants a second device, and there is none");
    const std::vector<bool> ends = is_of_host(direction) ? kinds : std::vector<bool>{false};
    for (const bool pinned : ends)
      for (const std::size_t bytes : sizes) cases.push_back({direction, pinned, bytes});
  }
  return cases;
}

std::string kind_text(const CopyCase& what) {
  if (!is_of_host(what.direction)) return "";
  return what.pinned ? "pinned" : "pageable";
}

std::string check_text(const MeasuredCopy& copy) {
  if (!copy.checked) return "";
  return copy.bytes_different == 0 ? "right" : fmt::format("{} differ", copy.bytes_different);
}

/// Rates as a plot over sizes: a bar for each, relative to the highest.
std::string table_text(const std::vector<MeasuredCopy>& copies) {
  double most = 0;
  for (const MeasuredCopy& copy : copies) most = std::max(most, copy.bytes_per_second());
  const Table table({{"copy", 6},
                     {"host", 8},
                     {"size", 10, true},
                     {"GB/s", 8, true},
                     {"", kBarWidth},
                     {"bytes", 8}});
  std::string text = table.header();
  for (const MeasuredCopy& copy : copies) {
    const double part = most > 0 ? copy.bytes_per_second() / most : 0;
    text +=
        table.row({std::string(name_of(copy.what.direction)), kind_text(copy.what),
                   format_bytes(copy.what.bytes), rate_text(copy.bytes_per_second()),
                   std::string(static_cast<std::size_t>(part * kBarWidth), '#'), check_text(copy)});
  }
  return text;
}

nlohmann::ordered_json to_json(const MeasuredCopy& copy) {
  nlohmann::ordered_json json{{"direction", name_of(copy.what.direction)}, {"host", nullptr}};
  if (is_of_host(copy.what.direction)) json["host"] = kind_text(copy.what);
  json["bytes"] = copy.what.bytes;
  json["seconds"] = copy.seconds;
  json["bytes_per_second"] = copy.bytes_per_second();
  json["bytes_different"] = nullptr;
  if (copy.checked) json["bytes_different"] = copy.bytes_different;
  return json;
}

ExitCode run_copies(const CopyCommandOptions& options) {
  const auto runtime = make_runtime(options.common);
  const Device device = require_device(*runtime, parse_cuda_device(options.device));
  const CopyDevices devices = find_devices(*runtime, device);
  const std::vector<CopyCase> todo = cases(options, devices.peer != devices.device);
  std::vector<MeasuredCopy> copies;
  {
    ProgressBar bar("copies", todo.size());
    for (const CopyCase& what : todo) {
      copies.push_back(measure_copy(*runtime, devices, what, options.repeats, options.check));
      bar.update(copies.size());
    }
  }
  if (options.common.json) {
    nlohmann::ordered_json json{{"driver", runtime->driver().name},
                                {"device", device.to_string()},
                                {"copies", nlohmann::ordered_json::array()}};
    for (const MeasuredCopy& copy : copies) json["copies"].push_back(to_json(copy));
    print(json_text(json));
  } else {
    print(
        fmt::format("{}device: {}\n\n", driver_text(*runtime, options.common), device.to_string()) +
        table_text(copies));
  }
  if (std::ranges::all_of(copies, [](const MeasuredCopy& c) { return c.bytes_different == 0; }))
    return ExitCode::ok;
  print_error("copies: the target differs from the source");
  return ExitCode::failed;
}

constexpr const char* kCopyHelp =
    R"(Each copy is timed from the call to the end of the wait for it, on the calling
thread; shown is the fastest of --repeat, after one that is not timed. Bars
compare all rates that are shown. On the simulated driver a copy is a memcpy,
whose rate says nothing about a GPU.

  in      host to device         within  device to itself
  out     device to host         peer    device to the next one

Examples:
  berth copy
  berth copy --check --sizes 1MiB,1GiB --directions in,out
  berth copy --device cuda:1 --kinds pageable --json
)";

}  // namespace

void add_copy_command(CommandLine& berth) {
  const auto options = std::make_shared<CopyCommandOptions>();
  CommandOptions command = berth.add("copy", "Measure copies, and check them",
                                     [options] { return run_copies(*options); });
  command.list("--sizes", options->sizes, "BYTES,...",
               "Such as 64KiB,1GiB; default\n4KiB,64KiB,1MiB,16MiB,256MiB");
  command.list("--directions", options->directions, "NAME,...",
               "Of " + known_directions() + "; default: all\nthat the machine has");
  command.list("--kinds", options->kinds, "NAME,...",
               "Of the host's memory: pageable, pinned; default both");
  command.count("--repeat", options->repeats, 1000, "Repetitions, 1 to 1000; default 5");
  command.flag("--check", options->check, "Compare every byte of one copy of each");
  command.text("--device", options->device, "DEVICE", "cuda or cuda:N; default cuda");
  add_common_options(command, options->common);
  command.footer(kCopyHelp);
}

}  // namespace berth::tool
