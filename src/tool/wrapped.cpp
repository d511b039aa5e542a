// SPDX-License-Identifier: Apache-2.0
#include "tool/wrapped.hpp"

namespace berth::tool {

std::string wrapped(std::string_view text, std::size_t indent, std::size_t width) {
  const std::size_t room = width > indent ? width - indent : 1;
  std::string lines;
  while (!text.empty()) {
    std::size_t end = text.size();
    if (end > room) {
      end = text.substr(0, room + 1).rfind(' ');
      if (end == std::string_view::npos || end == 0) end = room;
    }
    lines.append(indent, ' ');
    lines += text.substr(0, end);
    lines += '\n';
    text.remove_prefix(end);
    if (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  }
  return lines;
}

}  // namespace berth::tool
