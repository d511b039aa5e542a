// SPDX-License-Identifier: Apache-2.0
// What is to be in the buffers of a program of copies, and which of it is known.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "copy/copy_fixture.hpp"

namespace berth::test {

struct ModelBuffer {
  ModelBuffer(CopyTest& test, Kind of, std::size_t bytes)
      : kind(of), buffer(test, of, bytes), expected(bytes), is_known(bytes, 1) {}

  /// By the host, or past berth.
  void write(Bytes content) {
    buffer.write(content);
    expect(0, content);
  }
  void expect(std::size_t at, const Bytes& content) {
    std::copy(content.begin(), content.end(), expected.begin() + std::ptrdiff_t(at));
    std::fill_n(is_known.begin() + std::ptrdiff_t(at), content.size(),
                static_cast<unsigned char>(1));
  }
  /// Nothing is under way any more.
  void compare() {
    const Bytes content = buffer.read();
    for (std::size_t at = 0; at < content.size(); ++at) {
      if (is_known[at] == 0 || content[at] == expected[at]) continue;
      FAIL_CHECK(fmt::format("{} memory, byte {}: {} instead of {}", name_of(kind), at, content[at],
                             expected[at]));
      break;
    }
    if (!buffer.guards_hold())
      FAIL_CHECK(fmt::format("a byte beside {} memory was written", name_of(kind)));
    is_read = is_written = false;
  }

  Kind kind;
  Buffer buffer;
  Bytes expected;
  Bytes is_known;
  // Of work that is under way. Only kept for host memory.
  bool is_read = false;
  bool is_written = false;
};

struct ModelRange {
  ModelBuffer* to;
  std::size_t target;
  ModelBuffer* from;
  std::size_t source;
  std::size_t bytes;
};

inline bool host_only(const ModelRange& range) {
  return is_host(range.to->kind) && is_host(range.from->kind);
}
inline bool overlaps(std::size_t a, std::size_t a_bytes, std::size_t b, std::size_t b_bytes) {
  return a < b + b_bytes && b < a + a_bytes;
}

/// Whether the target of one meets what the other reads or writes. A range meets itself where its
/// target meets its source.
inline bool meet(const ModelRange& a, const ModelRange& b) {
  const auto target_meets_source = [](const ModelRange& one, const ModelRange& other) {
    return one.to == other.from && overlaps(one.target, one.bytes, other.source, other.bytes);
  };
  const bool targets_meet =
      &a != &b && a.to == b.to && overlaps(a.target, a.bytes, b.target, b.bytes);
  return targets_meet || target_meets_source(a, b) || target_meets_source(b, a);
}

/// Whether the host does at once, or may do at once, what must not meet work that is under way.
inline bool must_settle(const ModelRange& range) {
  if (host_only(range)) return range.from->is_written || range.to->is_written || range.to->is_read;
  return range.from->kind == Kind::pageable && range.from->is_written;
}

/// What a copy does to the arrays. `arrives`: false where it is to be cancelled.
inline void follow_bytes(const ModelRange& range, bool arrives) {
  const auto source = std::ptrdiff_t(range.source);
  const auto target = std::ptrdiff_t(range.target);
  const auto bytes = std::ptrdiff_t(range.bytes);
  std::copy_n(range.from->expected.begin() + source, bytes, range.to->expected.begin() + target);
  if (arrives)
    std::copy_n(range.from->is_known.begin() + source, bytes, range.to->is_known.begin() + target);
  else
    std::fill_n(range.to->is_known.begin() + target, bytes, static_cast<unsigned char>(0));
}

}  // namespace berth::test
