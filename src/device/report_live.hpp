// SPDX-License-Identifier: Apache-2.0
// The report at the end of a Runtime of what the program still holds.
#pragma once

#include <cstddef>
#include <string_view>

#include "berth/device.hpp"

#include "base/counted.hpp"
#include "base/format.hpp"
#include "driver/driver.hpp"

namespace berth {

/// "streams of cuda:0: 3 leases are live when their Runtime ends; accepted: ...", if `noun` is
/// "lease". No report for 0.
inline void report_live(const Driver& driver, Device device, std::string_view owner,
                        std::size_t count, std::string_view noun,
                        std::string_view accepted) noexcept {
  if (count == 0) return;
  driver.report(Severity::warning, [&] {
    const bool is_one = count == 1;
    return format_text("{}{}: {} {} live when {} Runtime ends; accepted: {}", owner,
                       device.to_string(), counted(count, noun), is_one ? "is" : "are",
                       is_one ? "its" : "their", accepted);
  });
}

}  // namespace berth
