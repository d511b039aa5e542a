// SPDX-License-Identifier: Apache-2.0
// What the command says: results on standard output, everything else on standard error.
#pragma once

#include <string>
#include <string_view>

#include "berth/report.hpp"

namespace berth::tool {

/// Thrown by print() once nobody reads standard output any more (`berth devices | true`): the
/// command stops and is content. Needs SIGPIPE ignored.
struct OutputClosed {};

/// Writes to standard output, at once.
/// Errors  OutputClosed. std::runtime_error: cannot be written otherwise, such as a full disk.
void print(std::string_view text);

/// One line on standard error, whatever bytes the message has. If standard error cannot be written,
/// nothing happens.
void print_warning(std::string_view message);
void print_error(std::string_view message);

/// A sink that prints what a Runtime reports, each message once, however many Runtimes repeat it.
ReportSink report_to_stderr();

}  // namespace berth::tool
