// SPDX-License-Identifier: Apache-2.0
// What a program of the campaign has found: rows, each a JSON object on a line of its own, which is out
// before the next thing is tried.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

namespace berth::campaign {

using Json = nlohmann::ordered_json;

/// Prints {"figure": ..., "row": ..., and the members of `values`}.
void add_row(std::string_view figure, std::string_view row, const Json& values);

/// Median, 99th percentile and count of durations, in nanoseconds. {} of none.
Json spread(std::vector<std::uint64_t> durations_ns);

/// How long the program may go on, as the campaign has told it.
class Time {
 public:
  Time();
  [[nodiscard]] bool is_over() const { return left() <= std::chrono::nanoseconds(0); }
  [[nodiscard]] std::chrono::nanoseconds left() const;
  /// The same of a share of all the time, from now on.
  [[nodiscard]] Time share(double of_all) const;

 private:
  Time(std::chrono::nanoseconds all, std::chrono::steady_clock::time_point end)
      : all_(all), end_(end) {}

  std::chrono::nanoseconds all_;
  std::chrono::steady_clock::time_point end_;
};

/// Whether one more is to be measured: one always, at most `most`, and none once `time` is over.
bool goes_on(const std::vector<std::uint64_t>& durations_ns, std::size_t most, const Time& time);

/// How long `action` takes.
template <class Action>
std::uint64_t nanoseconds_of(const Action& action) {
  const auto begin = std::chrono::steady_clock::now();
  action();
  return static_cast<std::uint64_t>((std::chrono::steady_clock::now() - begin).count());
}

}  // namespace berth::campaign
