// SPDX-License-Identifier: Apache-2.0
// Plain values (numbers, texts, lists, dictionaries) of pickle and JSON, from untrusted files.
//
// A PlainValue is 16 bytes and copied freely; a container is a number that PlainData resolves, so
// that values may be shared, and even contain themselves, without cost. Code that walks the values
// must bound the walk.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trace/host_limit.hpp"

namespace berth {

enum class PlainKind : std::uint8_t {
  none,
  boolean,
  integer,
  wide_integer,  ///< beyond 64 bits with sign; its value is not kept
  real,
  text,
  bytes,
  list,
  tuple,
  dict,
};

/// "a list", for errors.
const char* describe(PlainKind kind);

class PlainValue {
 public:
  PlainValue() noexcept = default;
  static PlainValue boolean(bool value) noexcept;
  static PlainValue integer(std::int64_t value) noexcept;
  static PlainValue wide_integer() noexcept { return PlainValue(PlainKind::wide_integer); }
  static PlainValue real(double value) noexcept;
  /// `text` must stay where it is for as long as the value is used. Below 4 GiB.
  static PlainValue text(std::string_view text) noexcept;
  static PlainValue bytes(std::string_view bytes) noexcept;

  [[nodiscard]] PlainKind kind() const noexcept { return kind_; }
  [[nodiscard]] bool is(PlainKind kind) const noexcept { return kind_ == kind; }

  /// Each requires that kind.
  [[nodiscard]] bool as_boolean() const noexcept;
  [[nodiscard]] std::int64_t as_integer() const noexcept;
  [[nodiscard]] double as_real() const noexcept;
  [[nodiscard]] std::string_view as_text() const noexcept;  ///< bytes too

 private:
  friend class PlainData;
  explicit PlainValue(PlainKind kind) noexcept : kind_(kind) {}

  PlainKind kind_ = PlainKind::none;
  std::uint32_t text_bytes_ = 0;
  union {
    std::int64_t integer_ = 0;
    double real_;
    const char* text_;
    std::size_t container_;
  };
};
static_assert(sizeof(PlainValue) == 16);

/// The containers, and the texts that are not in the content.
class PlainData {
 public:
  /// An empty one of that kind: list, tuple or dict.
  PlainValue make(PlainKind kind);
  /// Appends `items` to a container; those of a dict are alternating keys and values. `items` must
  /// not be a part of this object.
  void append(PlainValue container, std::span<const PlainValue> items);

  /// Valid until the next append.
  [[nodiscard]] std::span<const PlainValue> items(PlainValue container) const;
  /// The value under the text `key`, the latest if there are several; null if there is none.
  [[nodiscard]] const PlainValue* find(PlainValue dict, std::string_view key) const;

  /// The number of items appended so far, which a walk over every container once would visit.
  [[nodiscard]] std::size_t item_count() const { return item_count_; }

  /// The memory allocated now, including owned texts.
  [[nodiscard]] std::uint64_t bytes_held() const {
    return containers_.capacity() * sizeof(Container) + items_.capacity() * sizeof(PlainValue) +
           text_bytes_;
  }

  /// The memory of containers and their items, without the owned texts.
  [[nodiscard]] std::size_t memory_bytes() const {
    return containers_.size() * sizeof(Container) + items_.size() * sizeof(PlainValue);
  }

  /// An upper bound of the host memory while `more` values are appended: the arrays double, and the
  /// old and the new one exist at once.
  [[nodiscard]] std::uint64_t bytes_to_append(std::size_t more) const {
    return kGrowth * (containers_.capacity() * sizeof(Container) +
                      (items_.capacity() + more) * sizeof(PlainValue)) +
           text_bytes_;
  }

  /// A text with a fixed address; equal texts are stored once.
  PlainValue own_text(std::string_view text);

 private:
  static constexpr std::uint64_t kGrowth = 4;

  struct Container {
    std::size_t begin;
    std::uint32_t size;
    std::uint32_t capacity;
  };
  std::vector<Container> containers_;
  std::vector<PlainValue> items_;  ///< of all containers, each in one piece
  std::size_t item_count_ = 0;
  /// Ordered, because std::hash of a text is public, so a file could choose texts that collide.
  std::set<std::string, std::less<>> texts_;
  std::uint64_t text_bytes_ = 0;  ///< of `texts_`, with their nodes
};

/// The limits of one file. A reader refuses more.
struct PlainLimits {
  std::size_t values = std::size_t{1} << 27;
  std::size_t depth = 1000;
  std::uint64_t host_bytes = kTraceHostBytesMax;  ///< of PlainData and of the reader's own stack
};

}  // namespace berth
