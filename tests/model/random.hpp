// SPDX-License-Identifier: Apache-2.0
// Random choices that a seed repeats. BERTH_TEST_SEED replaces the first seed of the tests,
// BERTH_TEST_SEEDS the number of seeds, BERTH_TEST_SECONDS makes each test go on with more seeds
// for so long, and BERTH_TEST_OPERATIONS replaces the number of operations of each. By default
// there are three seeds; with a sanitizer, which makes each several times slower, one, unless
// BERTH_TEST_LONG is set (./run test --long).
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <random>
#include <string>

#include "support/thinned.hpp"

namespace berth::test {

inline std::optional<std::uint64_t> number_from_environment(const char* name) {
  const char* const text = std::getenv(name);
  if (text == nullptr) return std::nullopt;
  return std::stoull(text);
}

inline std::uint64_t first_seed() {
  return number_from_environment("BERTH_TEST_SEED").value_or(1);
}

inline std::uint64_t usual_seeds() {
  return is_thinned() || number_from_environment("BERTH_TEST_SEED") ? 1 : 3;
}

/// Calls `run` with one seed after the other.
template <class Run>
void for_each_seed(Run&& run) {
  using Clock = std::chrono::steady_clock;
  const auto seconds = number_from_environment("BERTH_TEST_SECONDS");
  const std::uint64_t usual = number_from_environment("BERTH_TEST_SEEDS").value_or(usual_seeds());
  const Clock::time_point end = Clock::now() + std::chrono::seconds(seconds.value_or(0));
  for (std::uint64_t seed = first_seed();
       seconds ? Clock::now() < end : seed < first_seed() + usual; ++seed)
    run(seed);
}

inline std::uint64_t operations(std::uint64_t usual) {
  return number_from_environment("BERTH_TEST_OPERATIONS").value_or(usual);
}

class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}

  /// 0 to bound - 1.
  [[nodiscard]] std::size_t below(std::size_t bound) { return engine_() % bound; }
  [[nodiscard]] bool one_in(std::size_t chances) { return below(chances) == 0; }
  /// 1 to `most`, each power of two as likely as the next.
  [[nodiscard]] std::size_t size_up_to(std::size_t most) {
    std::size_t power = 0;
    while (most >> (power + 1) != 0) ++power;
    const std::size_t bound = std::size_t{2} << below(power + 1);
    return 1 + below(bound < most ? bound : most);
  }
  [[nodiscard]] unsigned char byte() { return static_cast<unsigned char>(below(256)); }

 private:
  std::mt19937_64 engine_;
};

}  // namespace berth::test
