// SPDX-License-Identifier: Apache-2.0
#include "berth/device.hpp"

#include <charconv>

#include <fmt/format.h>

#include "base/quoted.hpp"

namespace berth {
namespace {

InvalidArgument no_device_text(std::string_view text, std::string_view reason) {
  return InvalidArgument(
      fmt::format("\"{}\" does not name a device: {}; accepted: cpu, cuda, cuda:N with N from 0 to "
                  "2147483647 without leading zeros",
                  on_one_line(text), reason));
}

}  // namespace

Device Device::cuda(int ordinal) {
  if (ordinal < 0) {
    throw InvalidArgument(
        fmt::format("cuda:{} is no device: ordinals start at 0; Device::cuda() without an ordinal "
                    "is the current device",
                    ordinal));
  }
  return {DeviceKind::cuda, ordinal};
}

Result<Device> Device::try_parse(std::string_view text) {
  if (text == "cpu") return cpu();
  if (text == "cuda") return cuda();
  constexpr std::string_view prefix = "cuda:";
  if (text.substr(0, prefix.size()) != prefix) return no_device_text(text, "unknown device type");

  const std::string_view digits = text.substr(prefix.size());
  const char* const end = digits.data() + digits.size();
  int ordinal = 0;
  // Unsigned in all but type: from_chars takes a minus sign, which no ordinal has.
  if (digits.empty() || digits[0] < '0' || digits[0] > '9') {
    return no_device_text(text, "no ordinal after the colon");
  }
  const auto [stop, failure] = std::from_chars(digits.data(), end, ordinal);
  if (failure == std::errc::result_out_of_range) return no_device_text(text, "ordinal too large");
  if (stop != end) return no_device_text(text, "characters after the ordinal");
  if (digits[0] == '0' && digits.size() > 1) return no_device_text(text, "leading zero");
  return cuda(ordinal);
}

Device Device::parse(std::string_view text) {
  return try_parse(text).value();
}

std::string Device::to_string() const {
  if (!is_cuda()) return "cpu";
  return has_ordinal() ? fmt::format("cuda:{}", ordinal_) : "cuda";
}

}  // namespace berth
