// SPDX-License-Identifier: Apache-2.0
#include "berth/device.hpp"

#include <charconv>

#include "base/format.hpp"
#include "base/quoted.hpp"
#include "device/similar_device.hpp"

namespace berth {
namespace {

constexpr const char* kOneCpu = "cpu is one device that stands for all cores";

/// "cpu, cpu:0, cuda, cuda:N, npu, npu:N with N from ...".
std::string accepted_texts() {
  std::string texts = "cpu, cpu:0";
  for (int number = 1; const auto type = DeviceType::from_number(number); ++number)
    texts += format_text(", {0}, {0}:N", type->name());
  return texts + format_text(" with N from 0 to {} in decimal digits without leading zeros",
                             Device::kOrdinalMax);
}

InvalidArgument no_device_text(std::string_view text, std::string_view reason) {
  const auto similar = similar_device(text);
  return InvalidArgument(format_text(
      "{} does not name a device: {}{}; accepted: {}", quoted(text), reason,
      similar ? format_text("; perhaps \"{}\"", similar->to_string()) : "", accepted_texts()));
}

}  // namespace

Device Device::of(DeviceType type, int ordinal) {
  if (ordinal < 0) {
    throw InvalidArgument(
        format_text("{0}:{1} is no device: ordinals start at 0; the type alone, {0}, is the "
                    "current device",
                    type.name(), ordinal));
  }
  if (type == DeviceType::cpu() && ordinal != 0) {
    throw InvalidArgument(
        format_text("cpu:{} is no device: {}; accepted: cpu, cpu:0", ordinal, kOneCpu));
  }
  return {type, ordinal};
}

Result<Device> Device::try_parse(std::string_view text) {
  if (text.empty()) return no_device_text(text, "it is empty");
  const auto colon = text.find(':');
  const auto type = DeviceType::find(text.substr(0, colon));
  if (!type) return no_device_text(text, "unknown device type");
  if (colon == std::string_view::npos) return of(*type);

  const std::string_view digits = text.substr(colon + 1);
  const char* const end = digits.data() + digits.size();
  int ordinal = 0;
  // The first character is checked, because from_chars accepts a minus sign and an ordinal has
  // none.
  if (digits.empty()) return no_device_text(text, "no ordinal after the colon");
  if (digits[0] < '0' || digits[0] > '9') {
    return no_device_text(text, "the ordinal is no number from 0 on");
  }
  const auto [stop, failure] = std::from_chars(digits.data(), end, ordinal);
  if (stop != end) return no_device_text(text, "characters after the ordinal");
  if (failure == std::errc::result_out_of_range) return no_device_text(text, "ordinal too large");
  if (digits[0] == '0' && digits.size() > 1) return no_device_text(text, "leading zero");
  if (*type == DeviceType::cpu() && ordinal != 0) return no_device_text(text, kOneCpu);
  return of(*type, ordinal);
}

Device Device::parse(std::string_view text) {
  return try_parse(text).value();
}

std::string Device::to_string() const {
  if (is_cpu() || !has_ordinal()) return std::string(type_.name());
  return format_text("{}:{}", type_.name(), ordinal_);
}

}  // namespace berth
