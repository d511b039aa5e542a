// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <span>
#include <vector>

#include "berth/same_device.h"
#include "berth/same_device.hpp"

#include "capi/capi_convert.hpp"
#include "capi/capi_error.hpp"

using namespace berth;
using namespace berth::capi;

namespace {

std::string_view text_or_empty(const char* text) {
  return text == nullptr ? std::string_view() : text;
}

bool are_same(berth_device a, berth_device b) {
  return a.type == b.type && a.ordinal == b.ordinal;
}

}  // namespace

berth_status berth_require_same_device(const char* operation,
                                       const berth_device_argument* arguments, size_t count,
                                       const char* hint) {
  return guarded([&] {
    require(operation, "operation");
    if (count == 0) return;
    const std::span given = require_array(arguments, count, "arguments");
    static_cast<void>(to_device(given.front().device, "arguments"));
    if (std::ranges::all_of(given, [&](const berth_device_argument& argument) {
          return are_same(argument.device, given.front().device);
        }))
      return;

    std::vector<DeviceArgument> converted;
    for (const berth_device_argument& argument : given)
      converted.push_back({text_or_empty(argument.name), to_device(argument.device, "arguments")});
    require_same_device(operation, converted, text_or_empty(hint));
  });
}
