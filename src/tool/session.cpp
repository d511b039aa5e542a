// SPDX-License-Identifier: Apache-2.0
#include "tool/session.hpp"

#include <cstdlib>
#include <utility>

#include <fmt/format.h>

#include "berth/bytes.hpp"
#include "berth/configuration.hpp"

#include "tool/output.hpp"
#include "tool/printable.hpp"
#include "tool/wrapped.hpp"

namespace berth::tool {
namespace {

std::string driver_from_environment() {
  const char* driver = std::getenv("BERTH_DRIVER");
  return driver == nullptr ? "" : driver;
}

/// The reason why `auto` did not select CUDA.
std::string reason_against_cuda() {
  RuntimeOptions options;
  options.driver = "cuda";
  const Runtime runtime(options);
  if (!runtime.driver().usable) return "no CUDA driver: " + runtime.driver().problem;
  const std::string& problem = runtime.devices().visibility_problem();
  return "no CUDA device" + (problem.empty() ? "" : ": " + problem);
}

/// The driver of `runtime`, with the reason if it may be unexpected.
std::string describe_driver(const Runtime& runtime, const CommonOptions& options) {
  const DriverInfo driver = runtime.driver();
  if (!driver.usable) return fmt::format("driver: none ({})", driver.problem);
  if (driver.name != "sim")
    return fmt::format("driver: {} (CUDA {}.{})", driver.name, driver.version / 1000,
                       driver.version % 1000 / 10);
  if (options.driver == "sim") return "driver: sim (simulated, as --driver says)";
  if (options.driver.empty() && options_from_environment().driver == "sim")
    return "driver: sim (simulated, as BERTH_CONF says)";
  if (options.driver.empty() && driver_from_environment() == "sim")
    return "driver: sim (simulated, as BERTH_DRIVER says)";
  return fmt::format("driver: sim (simulated; {})", reason_against_cuda());
}

/// What may help if `driver` cannot be used.
const char* advice(const Runtime& runtime, const DriverInfo& driver) {
  if (!runtime.devices().physical_devices().empty())
    return "; berth devices --explain says why no device is visible";
  return driver.name == "sim" ? "" : "; --driver sim needs none";
}

}  // namespace

void require_driver(const Runtime& runtime) {
  const DriverInfo driver = runtime.driver();
  if (driver.usable) return;
  throw NoDeviceError(fmt::format("driver {} cannot be used: {}{}", driver.name, driver.problem,
                                  advice(runtime, driver)));
}

void add_common_options(CommandOptions& command, CommonOptions& options) {
  command.text("--driver", options.driver, "NAME",
               "cuda, sim (simulated), auto (cuda where it has a device,\n"
               "else sim), or the path of a driver library;\n"
               "default: BERTH_CONF, BERTH_DRIVER, else auto",
               {{"cuda", "sim", "auto"}, true});
  command.flag("--json", options.json, "Print JSON");
}

void add_trace_options(CommandOptions& command, std::string& host_memory) {
  command.text("--host-memory", host_memory, "BYTES",
               "Refuse a trace that needs more to be read; default 4GiB");
}

TraceOptions parse_trace_options(const std::string& host_memory) {
  TraceOptions options;
  if (!host_memory.empty())
    options.host_bytes_max = parse_option("--host-memory", host_memory, parse_bytes);
  return options;
}

RuntimeOptions options_from_environment() {
  try {
    RuntimeOptions options = configure_from_environment({});
    options.read_environment = false;  // the command line overrides it
    return options;
  } catch (const InvalidArgument& error) {
    throw UsageError(error.what());
  }
}

std::unique_ptr<Runtime> make_runtime(const CommonOptions& options, RuntimeOptions runtime) {
  auto made = open_runtime(options, std::move(runtime));
  if (!options.driver.empty()) require_driver(*made);
  return made;
}

std::unique_ptr<Runtime> open_runtime(const CommonOptions& options, RuntimeOptions runtime) {
  if (!options.driver.empty()) runtime.driver = options.driver;
  if (runtime.driver.empty() && driver_from_environment().empty()) runtime.driver = "auto";
  runtime.report = report_to_stderr();
  try {
    return std::make_unique<Runtime>(std::move(runtime));
  } catch (const InvalidArgument& error) {
    throw UsageError(error.what());
  }
}

std::string driver_text(const Runtime& runtime, const CommonOptions& options) {
  return wrapped(printable(describe_driver(runtime, options)), 0);
}

Device parse_cuda_device(const std::string& text) {
  const Device device = parse_option("--device", text, Device::parse);
  if (!device.is_cuda())
    throw UsageError(
        fmt::format("--device: {} has no memory that berth manages; accepted: cuda or cuda:N",
                    quoted_argument(text)));
  return device;
}

Device require_device(const Runtime& runtime, Device device) {
  require_driver(runtime);
  try {
    return runtime.devices().resolve(device);
  } catch (const InvalidArgument& error) {
    throw NoDeviceError(error.what());
  }
}

}  // namespace berth::tool
