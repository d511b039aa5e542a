// SPDX-License-Identifier: Apache-2.0
// Suggestions for misspelled words.
#pragma once

#include <span>
#include <string_view>

namespace berth {

/// The one of `known` that was probably meant by `word`; empty if none is similar. One with an
/// omission or an extra word is closer than one with similar letters.
std::string_view nearest_word(std::string_view word, std::span<const std::string_view> known);

}  // namespace berth
