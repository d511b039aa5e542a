// SPDX-License-Identifier: Apache-2.0
// What a piece of work prints on standard error.
#pragma once

#include <cstdio>
#include <string>
#include <unistd.h>

#include <doctest/doctest.h>

namespace berth::test {

/// Threads  nothing else may print meanwhile
template <class Work>
std::string standard_error_of(Work&& work) {
  std::FILE* const file = std::tmpfile();
  REQUIRE(file != nullptr);
  std::fflush(stderr);
  const int before = dup(STDERR_FILENO);
  dup2(fileno(file), STDERR_FILENO);
  work();
  std::fflush(stderr);
  dup2(before, STDERR_FILENO);
  close(before);
  std::rewind(file);
  std::string text;
  for (int c = std::fgetc(file); c != EOF; c = std::fgetc(file)) text += static_cast<char>(c);
  std::fclose(file);
  return text;
}

}  // namespace berth::test
