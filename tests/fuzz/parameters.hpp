// SPDX-License-Identifier: Apache-2.0
// Kinds of parameters: handles, numbers, and single results. Pointers to host memory are valid or
// null: others fault on hardware too.
#pragma once

#include <algorithm>
#include <array>
#include <cstring>

#include "base/check.hpp"
#include "fuzz/turn.hpp"

namespace berth::fuzz {

/// A handle: mostly a live one of the right kind; otherwise one that is gone, of another kind,
/// null, a constant of CUDA's, or made up.
std::uint64_t draw_handle(Turn& turn, Kind kind);

struct Handle {
  Kind kind;
  bool ends;

  struct Drawn {
    Kind kind;
    bool ends;
    std::uint64_t handle;

    [[nodiscard]] Bits value() const { return {handle}; }
    void after(Turn& turn, bool succeeded) const {
      if (succeeded && ends) turn.things.end(kind, handle);
    }
  };
  [[nodiscard]] Drawn draw(Turn& turn) const { return {kind, ends, draw_handle(turn, kind)}; }
};

constexpr Handle handle(Kind kind) {
  return {kind, false};
}
/// A handle that is gone when the call succeeds.
constexpr Handle ending(Kind kind) {
  return {kind, true};
}

/// One of some values, the first of which is the ordinary one.
struct Number {
  std::array<std::uint64_t, 8> values;
  std::size_t count;
  bool is_enumerator;  ///< C++ has no others of its type

  struct Drawn {
    std::uint64_t number;

    [[nodiscard]] Bits value() const { return {number}; }
    static void after(Turn&, bool) {}
  };
  [[nodiscard]] Drawn draw(Turn& turn) const;
};

template <class... Values>
constexpr Number number(Values... values) {
  return {{static_cast<std::uint64_t>(values)...}, sizeof...(values), false};
}
template <class... Values>
constexpr Number enumerator(Values... values) {
  return {{static_cast<std::uint64_t>(values)...}, sizeof...(values), true};
}

/// Any number below `bound`.
struct Below {
  std::uint64_t bound;
  [[nodiscard]] Number::Drawn draw(Turn& turn) const { return {turn.bytes.number(2) % bound}; }
};
constexpr Below below(std::uint64_t bound) {
  return {bound};
}

/// Where a function puts one result. What lies behind it must stay as it was, and, where the call
/// is refused, the result too.
class Result {
 public:
  /// `kind`: the result is a handle of it. `uncertain`: a refused call may
  /// write there too, and a successful one need not.
  explicit Result(Turn& turn, std::optional<Kind> kind = {}, bool uncertain = false);

  /// A pointer to whatever type the function wants.
  struct Place {
    std::byte* at;
    std::size_t& used;

    template <class T>
    operator T*() const {  // NOLINT(google-explicit-constructor)
      if constexpr (!std::is_void_v<T>) {
        static_assert(sizeof(T) <= kBytes);
        used = sizeof(T);
      }
      return at == nullptr ? nullptr : reinterpret_cast<T*>(at);
    }
  };
  [[nodiscard]] Place value() { return {is_null_ ? nullptr : bytes_.data(), used_}; }
  void after(Turn& turn, bool succeeded);

  template <class T>
  [[nodiscard]] T as() const {
    T result;
    std::memcpy(&result, bytes_.data(), sizeof(T));
    return result;
  }
  /// What the function finds there.
  template <class T>
  void set(T before) {
    std::memcpy(bytes_.data(), &before, sizeof(T));
    before_ = bytes_;
  }
  [[nodiscard]] bool is_null() const { return is_null_; }

 private:
  static constexpr std::size_t kBytes = 256;
  static constexpr std::size_t kLargestUntyped = 16;  // behind a void*

  alignas(16) std::array<std::byte, kBytes> bytes_;
  std::array<std::byte, kBytes> before_;
  std::size_t used_ = kLargestUntyped;
  std::optional<Kind> kind_;
  bool uncertain_;
  bool is_null_;
};

struct Out {
  std::optional<Kind> kind;
  bool uncertain;
  [[nodiscard]] Result draw(Turn& turn) const { return Result(turn, kind, uncertain); }
};
inline constexpr Out out{{}, false};
inline constexpr Out uncertain_out{{}, true};
/// A handle that later calls use.
constexpr Out made(Kind kind, bool uncertain = false) {
  return {kind, uncertain};
}

}  // namespace berth::fuzz
