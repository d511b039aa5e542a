// SPDX-License-Identifier: Apache-2.0
#include "probes/rows.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>

#include <fmt/format.h>

#include "berth/bytes.hpp"

namespace berth::campaign {
namespace {

constexpr double kSecondsByHand = 10;  ///< without a campaign

bool any_has_failed = false;

void print_line(const Json& line) {
  const std::string text =
      line.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";  // names may not be UTF-8
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

std::chrono::nanoseconds time_given() {
  const char* const text = std::getenv("BERTH_CAMPAIGN_SECONDS");
  const double seconds = text == nullptr ? kSecondsByHand : std::strtod(text, nullptr);
  return std::chrono::nanoseconds(static_cast<std::int64_t>(seconds * 1e9));
}

}  // namespace

void add_row(std::string_view figure, std::string_view row, const Json& values) {
  Json line = {{"figure", figure}, {"row", row}};
  line.update(values);
  print_line(line);
}

Json spread(std::vector<std::uint64_t> durations_ns) {
  if (durations_ns.empty()) return Json::object();
  std::ranges::sort(durations_ns);
  const std::size_t last = durations_ns.size() - 1;
  return {{"ns_p50", durations_ns[last / 2]},
          {"ns_p99", durations_ns[last * 99 / 100]},
          {"count", durations_ns.size()}};
}

void add_row_at(std::string_view figure, const Place& place, const Json& values) {
  std::string row;
  Json at = Json::object();
  for (const auto& [circumstance, value] : place) {
    row += (row.empty() ? "" : ", ") + value;
    at[circumstance] = value;
  }
  Json all = {{"at", at}};
  all.update(values);
  add_row(figure, row, all);
}

std::string size_text(std::size_t bytes) {
  return bytes >= 1_MiB ? fmt::format("{} MiB", bytes / 1_MiB)
                        : fmt::format("{} KiB", bytes / 1_KiB);
}

void begin_case(std::string_view figure, std::string_view row) {
  print_line({{"begin", row}, {"figure", figure}});
}

std::size_t first_case(int argc, char** argv) {
  constexpr std::string_view kOption = "--first=";
  const std::string_view last = argc > 1 ? argv[argc - 1] : "";
  if (!last.starts_with(kOption)) return 1;
  return std::max<std::size_t>(std::strtoul(last.data() + kOption.size(), nullptr, 10), 1);
}

void attempt(std::string_view figure, std::string_view row, const std::function<void()>& measure) {
  try {
    measure();
  } catch (const std::exception& error) {
    any_has_failed = true;
    add_row(figure, row, {{"outcome", "failed"}, {"text", error.what()}});
  }
}

bool has_any_failed() {
  return any_has_failed;
}

Time::Time() : all_(time_given()), end_(std::chrono::steady_clock::now() + all_) {}

std::chrono::nanoseconds Time::left() const {
  return end_ - std::chrono::steady_clock::now();
}

Time Time::share(double of_all) const {
  const auto part = std::chrono::nanoseconds(
      static_cast<std::int64_t>(static_cast<double>(all_.count()) * of_all));
  return {all_, std::min(end_, std::chrono::steady_clock::now() + part)};
}

}  // namespace berth::campaign
