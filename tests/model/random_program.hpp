// SPDX-License-Identifier: Apache-2.0
// The engine of the random programs. A program is a subject with a seed: its step() chooses an
// operation from a table by weight, does it, and compares the subject with a model; its finish()
// gives everything back. A failure names the seed, the step and the operation.
//
// BERTH_TEST_SEED replaces the first seed, BERTH_TEST_SEEDS the number of seeds,
// BERTH_TEST_SECONDS makes each test go on with more seeds for so long, and BERTH_TEST_OPERATIONS
// replaces the number of steps of each program. By default there are three seeds; with a sanitizer,
// which makes each several times slower, one, unless BERTH_TEST_LONG is set (./run test --long).
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>

#include <doctest/doctest.h>

#include "model/random.hpp"
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

/// Calls `run` with one seed after the other: with `usual` of them, by default.
template <class Run>
void for_each_seed(Run&& run, std::uint64_t usual = 3) {
  using Clock = std::chrono::steady_clock;
  const std::uint64_t first = first_seed();
  const bool is_one = is_thinned() || number_from_environment("BERTH_TEST_SEED");
  const std::uint64_t count =
      number_from_environment("BERTH_TEST_SEEDS").value_or(is_one ? 1 : usual);
  const auto seconds = number_from_environment("BERTH_TEST_SECONDS");
  const Clock::time_point end = Clock::now() + std::chrono::seconds(seconds.value_or(0));
  for (std::uint64_t seed = first; seconds ? Clock::now() < end : seed < first + count; ++seed) {
    INFO("again: BERTH_TEST_SEED=", seed);
    run(seed);
  }
}

inline std::uint64_t operations(std::uint64_t usual) {
  return number_from_environment("BERTH_TEST_OPERATIONS").value_or(usual);
}

/// `weight` of the sum of a table's weights is the chance of an operation.
template <class Subject, class... Arguments>
struct Operation {
  std::size_t weight;
  const char* name;
  void (Subject::*run)(Arguments...);
};

template <class Subject, class... Arguments, std::size_t kCount>
const Operation<Subject, Arguments...>& choose(
    const Operation<Subject, Arguments...> (&table)[kCount], Random& random) {
  std::size_t weights = 0;
  for (const auto& operation : table) weights += operation.weight;
  std::size_t chosen = random.below(weights);
  const auto* operation = table;
  while (chosen >= operation->weight) chosen -= (operation++)->weight;
  return *operation;
}

class RandomProgram {
 public:
  RandomProgram(const RandomProgram&) = delete;
  RandomProgram& operator=(const RandomProgram&) = delete;

  [[nodiscard]] std::string last_operation() const { return last_operation_; }

 protected:
  explicit RandomProgram(std::uint64_t seed) : random_(seed) {}
  ~RandomProgram() = default;

  template <class Program, class... Arguments, std::size_t kCount>
  void do_one_of(const Operation<Program, Arguments...> (&table)[kCount],
                 const Arguments&... arguments) {
    const auto& operation = choose(table, random_);
    last_operation_ = operation.name;
    (static_cast<Program*>(this)->*operation.run)(arguments...);
  }

  Random random_;

 private:
  const char* last_operation_ = "begin";
};

/// Takes a program through so many steps and to its end.
template <class Program>
void run_to_the_end(Program& program, std::uint64_t steps) {
  for (std::uint64_t step = 0; step < steps; ++step) {
    INFO("step ", step, ": ", program.last_operation());
    program.step();
  }
  program.finish();
}

}  // namespace berth::test
