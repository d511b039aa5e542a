// SPDX-License-Identifier: Apache-2.0
// The output of the command: results on standard output, all other text on standard error.
#pragma once

#include <string>
#include <string_view>

#include "berth/report.hpp"

namespace berth::tool {

/// Thrown by print() when the reader of standard output has closed it (`berth devices | true`): the
/// command stops without an error. Requires that SIGPIPE is ignored.
struct OutputClosed {};

/// Writes to standard output, at once.
/// Errors  OutputClosed. std::runtime_error: another failure, such as a full disk.
void print(std::string_view text);

/// Writes one line to standard error, whatever bytes the message has. A failure to write is
/// ignored.
void print_warning(std::string_view message);
void print_error(std::string_view message);

/// A sink that prints the reports of Runtimes, each message once, however many Runtimes repeat it.
ReportSink report_to_stderr();

}  // namespace berth::tool
