// SPDX-License-Identifier: Apache-2.0
// The results of a program of the campaign: rows, each a JSON object on its own line, which is
// printed before the next measurement begins.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

namespace berth::campaign {

using Json = nlohmann::ordered_json;

/// Prints {"figure": ..., "row": ..., and the members of `values`}.
void add_row(std::string_view figure, std::string_view row, const Json& values);

/// Median, 99th percentile and count of durations, in nanoseconds. {} of none.
Json spread(std::vector<std::uint64_t> durations_ns);

/// The time for measurements, which the campaign sets.
class Time {
 public:
  Time();
  [[nodiscard]] bool is_over() const { return left() <= std::chrono::nanoseconds(0); }
  [[nodiscard]] std::chrono::nanoseconds left() const;
  /// The same for a fraction of the whole time, from now on.
  [[nodiscard]] Time share(double of_all) const;

 private:
  Time(std::chrono::nanoseconds all, std::chrono::steady_clock::time_point end)
      : all_(all), end_(end) {}

  std::chrono::nanoseconds all_;
  std::chrono::steady_clock::time_point end_;
};

/// The duration of `action`.
template <class Action>
std::uint64_t nanoseconds_of(const Action& action) {
  const auto begin = std::chrono::steady_clock::now();
  action();
  return static_cast<std::uint64_t>((std::chrono::steady_clock::now() - begin).count());
}

/// Calls `turn` at least once, and then until `time` is over or it was called `most` times. If
/// there is time for a second turn, the first was to warm up: `forget` is called after it.
template <class Turn, class Forget>
void repeat(std::size_t most, const Time& time, const Turn& turn, const Forget& forget) {
  turn();
  if (time.is_over()) return;
  forget();
  std::size_t turns = 0;
  do {
    turn();
  } while (++turns < most && !time.is_over());
}

/// The durations of repeated calls of `action`.
template <class Action>
std::vector<std::uint64_t> durations_of(std::size_t most, const Time& time, const Action& action) {
  std::vector<std::uint64_t> durations;
  repeat(
      most, time, [&] { durations.push_back(nanoseconds_of(action)); }, [&] { durations.clear(); });
  return durations;
}

/// A row of `figure` that is named by several circumstances, each a column or a line of a table.
using Place = std::vector<std::pair<std::string, std::string>>;
void add_row_at(std::string_view figure, const Place& place, const Json& values);

/// "64 KiB", "2 MiB": of whole KiB.
[[nodiscard]] std::string size_text(std::size_t bytes);

/// Call it before code that may crash or hang, so that the campaign knows the case.
void begin_case(std::string_view figure, std::string_view row);

/// The number of the first case to run, of a last argument `--first=N`; 1 without.
[[nodiscard]] std::size_t first_case(int argc, char** argv);

/// Calls `measure`. A failure is a row of its own, and the rest goes on; run_on_machine() returns 1
/// then.
void attempt(std::string_view figure, std::string_view row, const std::function<void()>& measure);
[[nodiscard]] bool has_any_failed();

}  // namespace berth::campaign
