// SPDX-License-Identifier: Apache-2.0
// An environment variable that is set for a scope. Not for tests with threads: the environment is
// the process's.
#pragma once

#include <cstdlib>
#include <optional>
#include <string>
#include <utility>

namespace berth::test {

class ScopedEnvironment {
 public:
  /// nullopt: not set.
  ScopedEnvironment(std::string name, const std::optional<std::string>& value)
      : name_(std::move(name)) {
    if (const char* before = std::getenv(name_.c_str())) before_ = before;
    set(value);
  }
  ~ScopedEnvironment() { set(before_); }
  ScopedEnvironment(const ScopedEnvironment&) = delete;
  ScopedEnvironment& operator=(const ScopedEnvironment&) = delete;

 private:
  void set(const std::optional<std::string>& value) {
    if (value) {
      setenv(name_.c_str(), value->c_str(), 1);
    } else {
      unsetenv(name_.c_str());
    }
  }

  std::string name_;
  std::optional<std::string> before_;
};

}  // namespace berth::test
