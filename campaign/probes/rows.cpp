// SPDX-License-Identifier: Apache-2.0
#include "probes/rows.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

namespace berth::campaign {
namespace {

constexpr double kSecondsByHand = 10;  ///< where no campaign has said

std::chrono::nanoseconds time_given() {
  const char* const text = std::getenv("BERTH_CAMPAIGN_SECONDS");
  const double seconds = text == nullptr ? kSecondsByHand : std::strtod(text, nullptr);
  return std::chrono::nanoseconds(static_cast<std::int64_t>(seconds * 1e9));
}

}  // namespace

void add_row(std::string_view figure, std::string_view row, const Json& values) {
  Json line = {{"figure", figure}, {"row", row}};
  line.update(values);
  const std::string text =
      line.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";  // names may be no UTF-8
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

Json spread(std::vector<std::uint64_t> durations_ns) {
  if (durations_ns.empty()) return Json::object();
  std::ranges::sort(durations_ns);
  const std::size_t last = durations_ns.size() - 1;
  return {{"ns_p50", durations_ns[last / 2]},
          {"ns_p99", durations_ns[last * 99 / 100]},
          {"count", durations_ns.size()}};
}

bool goes_on(const std::vector<std::uint64_t>& durations_ns, std::size_t most, const Time& time) {
  return durations_ns.empty() || (durations_ns.size() < most && !time.is_over());
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
