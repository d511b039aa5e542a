// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace berth::tool {

/// The words of `text` in lines of at most `width` columns, `indent` blanks before each, each with
/// a newline. A word that is wider than a line is cut, so that no line is wider.
std::string wrapped(std::string_view text, std::size_t indent, std::size_t width = 80);

}  // namespace berth::tool
