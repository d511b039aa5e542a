// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <initializer_list>
#include <string_view>

#include "berth/error.hpp"

#include "base/format.hpp"
#include "base/text_list.hpp"

namespace berth {

/// Checks an option whose type is an enumeration: the C ABI and casts can pass any number.
/// `names` are the names of all enumerators, which count from 0, in order.
/// Errors  InvalidArgument, with the option's name and the accepted names.
template <class Enum>
void check_choice(std::string_view option, Enum value,
                  std::initializer_list<std::string_view> names) {
  const auto number = static_cast<long long>(value);
  if (number >= 0 && number < static_cast<long long>(names.size())) return;
  throw InvalidArgument(
      format_text("{} is {}; accepted: {}", option, number, join_texts(names, ", ")));
}

}  // namespace berth
