// SPDX-License-Identifier: Apache-2.0
#include "tool/output.hpp"

#include <cerrno>
#include <cstdio>
#include <memory>
#include <mutex>
#include <set>
#include <stdexcept>
#include <system_error>

#include <fmt/format.h>

#include "tool/printable.hpp"

namespace berth::tool {

namespace {

/// A failure to write to standard error cannot be reported; only the exit code remains.
void print_line_on_stderr(std::string_view kind, std::string_view message) {
  const std::string line = fmt::format("berth: {}: {}\n", kind, printable(message));
  static_cast<void>(std::fwrite(line.data(), 1, line.size(), stderr));
}

}  // namespace

void print(std::string_view text) {
  errno = 0;
  const bool written =
      std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0;
  if (written) return;
  if (errno == EPIPE) throw OutputClosed{};
  throw std::runtime_error(
      fmt::format("standard output: {}", std::generic_category().message(errno)));
}

void print_warning(std::string_view message) {
  print_line_on_stderr("warning", message);
}

void print_error(std::string_view message) {
  print_line_on_stderr("error", message);
}

ReportSink report_to_stderr() {
  struct Seen {
    std::mutex mutex;
    std::set<std::string> messages;
  };
  static const auto seen = std::make_shared<Seen>();
  return [](const Report& report) {
    {
      const std::lock_guard lock(seen->mutex);
      if (!seen->messages.insert(report.message).second) return;
    }
    if (report.severity == Severity::warning)
      print_warning(report.message);
    else
      print_error(report.message);
  };
}

}  // namespace berth::tool
