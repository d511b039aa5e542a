// SPDX-License-Identifier: Apache-2.0
// What the subcommands share: options, and how a Runtime is made for them.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "berth/runtime.hpp"
#include "berth/trace.hpp"

#include "tool/command_line.hpp"
#include "tool/exit_code.hpp"

namespace berth::tool {

/// How much host memory the reading of a trace may take.
void add_trace_options(CommandOptions& command, std::string& host_memory);
/// Errors  UsageError.
TraceOptions parse_trace_options(const std::string& host_memory);

struct CommonOptions {
  std::string driver;  ///< empty: BERTH_CONF, BERTH_DRIVER, and `auto` where neither names one
  bool json = false;
};

void add_common_options(CommandOptions& command, CommonOptions& options);

/// What BERTH_CONF says, for a subcommand to put its own options over: the command line goes before
/// the environment.
/// Errors  UsageError: it is malformed.
RuntimeOptions options_from_environment();

/// The Runtime that the options ask for, over what `runtime` says.
/// Errors  UsageError: no such driver, or an environment variable that is malformed.
///         NoDeviceError: --driver names a driver that cannot be used.
std::unique_ptr<Runtime> make_runtime(const CommonOptions& options,
                                      RuntimeOptions runtime = options_from_environment());

/// On which driver `runtime` runs, and why if that may surprise: lines of at most 80 columns.
std::string driver_text(const Runtime& runtime, const CommonOptions& options);

/// "cuda" or "cuda:N" from the command line.
/// Errors  UsageError.
Device parse_cuda_device(const std::string& text);

/// The device, resolved.
/// Errors  NoDeviceError: no usable driver, or no such device.
Device require_device(const Runtime& runtime, Device device);

/// Errors  UsageError that names the option, where `parse` does not accept the text.
template <class Parse>
auto parse_option(std::string_view option, const std::string& text, const Parse& parse) {
  try {
    return parse(text);
  } catch (const InvalidArgument& error) {
    throw UsageError(std::string(option) + ": " + error.what());
  }
}

}  // namespace berth::tool
