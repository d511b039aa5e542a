// SPDX-License-Identifier: Apache-2.0
// The common part of the subcommands: options, and the creation of a Runtime.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "berth/runtime.hpp"
#include "berth/trace.hpp"

#include "tool/command_line.hpp"
#include "tool/exit_code.hpp"

namespace berth::tool {

/// The limit of host memory for reading a trace.
void add_trace_options(CommandOptions& command, std::string& host_memory);
/// Errors  UsageError.
TraceOptions parse_trace_options(const std::string& host_memory);

struct CommonOptions {
  std::string driver;  ///< empty: BERTH_CONF, BERTH_DRIVER, or `auto` if neither names one
  bool json = false;
};

void add_common_options(CommandOptions& command, CommonOptions& options);

/// The options of BERTH_CONF, which a subcommand overrides with its own: the command line takes
/// precedence over the environment.
/// Errors  UsageError: it is malformed.
RuntimeOptions options_from_environment();

/// Creates a Runtime with the options, which override `runtime`.
/// Errors  UsageError: no such driver, or an environment variable that is malformed.
///         NoDeviceError: --driver names a driver that cannot be used.
std::unique_ptr<Runtime> make_runtime(const CommonOptions& options,
                                      RuntimeOptions runtime = options_from_environment());

/// The same, also if the driver cannot be used.
std::unique_ptr<Runtime> open_runtime(const CommonOptions& options,
                                      RuntimeOptions runtime = options_from_environment());

/// Errors  NoDeviceError: the driver of `runtime` cannot be used.
void require_driver(const Runtime& runtime);

/// The driver of `runtime`, with the reason if it may be unexpected: lines of at most 80 columns.
std::string driver_text(const Runtime& runtime, const CommonOptions& options);

/// "cuda" or "cuda:N" from the command line.
/// Errors  UsageError.
Device parse_cuda_device(const std::string& text);

/// The device, resolved.
/// Errors  NoDeviceError: no usable driver, or no such device.
Device require_device(const Runtime& runtime, Device device);

/// Errors  UsageError that names the option, if `parse` does not accept the text.
template <class Parse>
auto parse_option(std::string_view option, const std::string& text, const Parse& parse) {
  try {
    return parse(text);
  } catch (const InvalidArgument& error) {
    throw UsageError(std::string(option) + ": " + error.what());
  }
}

}  // namespace berth::tool
