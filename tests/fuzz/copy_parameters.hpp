// SPDX-License-Identifier: Apache-2.0
// Kinds of parameters: rectangles and batches of copies. What is drawn for one of several
// parameters that belong together is kept in the turn for the others.
#pragma once

#include <array>

#include "fuzz/memory_parameters.hpp"
#include "fuzz/other_parameters.hpp"

namespace berth::fuzz {

/// A copy of rows. On pageable memory it stays inside of its buffer.
struct Rectangle {
  [[nodiscard]] Read<CUDA_MEMCPY2D> draw(Turn& turn) const;
};
inline constexpr Rectangle rectangle{};

/// Arrays for a function to read, behind one pointer.
template <class T>
struct ArrayIn {
  std::array<T, kCopiesMax> elements;
  bool is_null;

  [[nodiscard]] T* value() { return is_null ? nullptr : elements.data(); }
  static void after(Turn&, bool) {}
};

/// The destinations of some copies; their sources and sizes, and how many there are, follow.
struct Destinations {
  [[nodiscard]] ArrayIn<CUdeviceptr> draw(Turn& turn) const;
};
inline constexpr Destinations destinations{};
struct Sources {
  [[nodiscard]] ArrayIn<CUdeviceptr> draw(Turn& turn) const;
};
inline constexpr Sources sources{};
struct Sizes {
  [[nodiscard]] ArrayIn<std::size_t> draw(Turn& turn) const;
};
inline constexpr Sizes sizes{};

/// Attributes, at which copies they begin, and how many there are.
struct CopyAttributes {
  [[nodiscard]] ArrayIn<CUmemcpyAttributes> draw(Turn& turn) const;
};
inline constexpr CopyAttributes copy_attributes{};
struct Firsts {
  [[nodiscard]] ArrayIn<std::size_t> draw(Turn& turn) const;
};
inline constexpr Firsts firsts{};

/// How many of what was drawn, or will be.
struct CopyCount {
  [[nodiscard]] Number::Drawn draw(Turn& turn) const {
    return {turn.bytes.byte() % (kCopiesMax + 1)};
  }
};
inline constexpr CopyCount copy_count{};

/// Attributes of a pointer to ask for, and where each goes.
struct PointerAttributes {
  [[nodiscard]] ArrayIn<CUpointer_attribute> draw(Turn& turn) const;
};
inline constexpr PointerAttributes pointer_attributes{};
struct AttributePlaces {
  struct Drawn {
    std::array<std::uint64_t, kCopiesMax> results;
    std::array<void*, kCopiesMax> places;
    bool is_null;

    [[nodiscard]] void** value();
    static void after(Turn&, bool) {}
  };
  [[nodiscard]] Drawn draw(Turn& turn) const;
};
inline constexpr AttributePlaces attribute_places{};

struct StreamCallback {
  struct Drawn {
    CUstreamCallback function;
    [[nodiscard]] CUstreamCallback value() const { return function; }
    static void after(Turn&, bool) {}
  };
  [[nodiscard]] Drawn draw(Turn& turn) const;
};
inline constexpr StreamCallback stream_callback{};

}  // namespace berth::fuzz
