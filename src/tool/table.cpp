// SPDX-License-Identifier: Apache-2.0
#include "tool/table.hpp"

#include <fmt/format.h>

namespace berth::tool {

std::string Table::header() const {
  std::vector<std::string> titles;
  for (const Column& column : columns_) titles.push_back(column.title);
  return row(titles);
}

std::string Table::row(const std::vector<std::string>& cells) const {
  std::string line;
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    const Column& column = columns_[i];
    if (i > 0) line += "  ";
    line += column.right ? fmt::format("{:>{}}", cells.at(i), column.width)
                         : fmt::format("{:<{}}", cells.at(i), column.width);
  }
  line.erase(line.find_last_not_of(' ') + 1);
  line += '\n';
  return line;
}

}  // namespace berth::tool
