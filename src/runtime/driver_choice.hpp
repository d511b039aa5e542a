// SPDX-License-Identifier: Apache-2.0
// The choice of the driver of a Runtime.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "berth/report.hpp"

#include "driver/driver.hpp"
#include "driver/nvml.hpp"

namespace berth {

struct OpenedDriver {
  std::unique_ptr<Driver> driver;
  std::unique_ptr<Nvml> nvml;
};

/// Whether `text` is one of the words, or a path. Opens no file.
bool names_driver(std::string_view text);
inline constexpr std::string_view kAcceptedDrivers =
    "cuda, sim, auto, or the path of a driver library, with a slash in it";

/// `text` as in RuntimeOptions::driver, empty included.
/// Errors  InvalidArgument: not a driver, or a malformed BERTH_SIM for the simulator.
OpenedDriver open_driver(const std::string& text, const ReportSink& sink);

}  // namespace berth
