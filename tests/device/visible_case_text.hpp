// SPDX-License-Identifier: Apache-2.0
// Cases of the table in words: which it is, and what it expects.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include <doctest/doctest.h>

#include "base/quoted.hpp"
#include "device/visible_device_cases.hpp"
#include "support/errors.hpp"

namespace berth::test {

inline std::string_view rule_text(VisibilityRule rule) {
  switch (rule) {
#define BERTH_CASE(name, text, source) \
  case VisibilityRule::name:           \
    return text;
    BERTH_VISIBILITY_RULES(BERTH_CASE)
#undef BERTH_CASE
  }
  return {};
}

/// "0 1.1": whole devices, and instances as device.instance.
inline std::string place_text(std::size_t device, std::optional<std::size_t> instance) {
  std::string text = std::to_string(device);
  if (instance) text += "." + std::to_string(*instance);
  return text;
}

inline void append_place(std::string& list, const std::string& place) {
  if (!list.empty()) list += ' ';
  list += place;
}

/// The problem is there exactly where an entry is wrong, and quotes it; `text` and `wrong` are
/// without placeholders.
inline void check_problem(const std::string& problem, const std::string& text,
                          const std::optional<std::string>& wrong) {
  CAPTURE(problem);
  CHECK(problem.empty() == !wrong.has_value());
  CHECK_FALSE(contains(problem, "\n"));
  if (!wrong) return;
  CHECK(contains(problem, "CUDA_VISIBLE_DEVICES=\"" + on_one_line(text) + "\""));
  CHECK(contains(problem, ": \"" + on_one_line(*wrong) + "\" "));
  CHECK(contains(problem, "accepted: ordinals from 0 to "));
}

}  // namespace berth::test
