// SPDX-License-Identifier: Apache-2.0
// The exceptions of an action, with the check that every message of berth is one line that is not
// empty.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include <doctest/doctest.h>

#include "berth/error.hpp"

namespace berth::test {

inline bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

/// The message of the E that `action` throws. Fails the test if no exception or another type is
/// thrown.
template <class E, class Action>
std::string message_of(Action&& action) {
  try {
    static_cast<void>(std::forward<Action>(action)());
  } catch (const E& error) {
    const std::string message = error.what();
    CHECK_FALSE(message.empty());
    CHECK_FALSE(contains(message, "\n"));
    return message;
  } catch (const std::exception& error) {
    FAIL_CHECK("another type was thrown: ", error.what());
    return {};
  }
  FAIL_CHECK("nothing was thrown");
  return {};
}

/// Whether `action` is refused because this process is a forked child: for use in the child, in
/// which checks have no effect on the test.
template <class Action>
bool is_refused_after_fork(const Action& action) {
  try {
    action();
  } catch (const NotSupported& error) {
    return contains(error.what(), "forked from");
  }
  return false;
}

/// message_of() for a Result: the message of the error in it, which must have the code `code`.
template <class T>
std::string message_of(const Result<T>& result, Errc code) {
  REQUIRE_FALSE(result.ok());
  CHECK(result.error().code() == code);
  const std::string message = result.error().what();
  CHECK_FALSE(message.empty());
  CHECK_FALSE(contains(message, "\n"));
  return message;
}

}  // namespace berth::test
