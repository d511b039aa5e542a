// SPDX-License-Identifier: Apache-2.0
// Rows of text in aligned columns. Widths are fixed in advance, so that a row can be printed as
// soon as it is known. A wider cell is printed in full, and moves the rest of its row to the right.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace berth::tool {

struct Column {
  std::string title;
  std::size_t width;
  bool right = false;  ///< right-aligned, for numbers
};

class Table {
 public:
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

  [[nodiscard]] std::string header() const;
  /// As many cells as columns. Ends in a newline, without blanks before it.
  [[nodiscard]] std::string row(const std::vector<std::string>& cells) const;

 private:
  std::vector<Column> columns_;
};

}  // namespace berth::tool
