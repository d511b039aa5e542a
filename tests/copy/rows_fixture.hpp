// SPDX-License-Identifier: Apache-2.0
// Rows a pitch apart in memory of any kind, and what is to be there once others were copied over
// them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include <doctest/doctest.h>

#include "copy/copy_fixture.hpp"

namespace berth::test {

struct Shape {
  std::size_t row_bytes;
  std::size_t rows;

  [[nodiscard]] std::size_t bytes() const { return row_bytes * rows; }
  /// From the first byte to the last.
  [[nodiscard]] std::size_t span(std::size_t pitch) const {
    return rows == 0 ? 0 : (rows - 1) * pitch + row_bytes;
  }
};

/// `under` with the rows of `source` copied over it.
inline Bytes with_rows(Bytes under, std::size_t target_pitch, const Bytes& source,
                       std::size_t source_pitch, Shape shape) {
  for (std::size_t row = 0; row < shape.rows; ++row) {
    std::copy_n(source.begin() + std::ptrdiff_t(row * source_pitch), shape.row_bytes,
                under.begin() + std::ptrdiff_t(row * target_pitch));
  }
  return under;
}

/// Two sides with a content each, of which one is to be copied over the other.
struct RowsTest {
  RowsTest(CopyTest& copies, Kind from, std::size_t from_pitch, Kind to, std::size_t to_pitch,
           Shape rows, std::uint64_t seed = 1)
      : test(copies),
        shape(rows),
        source_pitch(from_pitch),
        target_pitch(to_pitch),
        source(copies, from, rows.span(from_pitch)),
        target(copies, to, rows.span(to_pitch)),
        content(pattern(source.bytes(), seed)),
        before(pattern(target.bytes(), seed + 1)) {
    source.write(content);
    target.write(before);
  }

  Transfer start(StreamRef stream, TransferOptions options = {}) {
    return test.copier.start_rows({target.data(), target_pitch}, {source.data(), source_pitch},
                                  shape.row_bytes, shape.rows, stream, std::move(options));
  }
  /// What the target is to hold once the rows are there, and all between them as it was.
  [[nodiscard]] Bytes expected() const {
    return with_rows(before, target_pitch, content, source_pitch, shape);
  }
  void check_arrived() const {
    CHECK((target.read() == expected()));
    CHECK((source.read() == content));
    CHECK(target.guards_hold());
    CHECK(source.guards_hold());
  }
  void check_untouched() const {
    CHECK((target.read() == before));
    CHECK(target.guards_hold());
  }

  CopyTest& test;
  Shape shape;
  std::size_t source_pitch;
  std::size_t target_pitch;
  Buffer source;
  Buffer target;
  Bytes content;
  Bytes before;
};

}  // namespace berth::test
