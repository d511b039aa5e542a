// SPDX-License-Identifier: Apache-2.0
// Kinds of parameters: addresses and sizes, with all that can be wrong with them. What a copy would
// really touch on the host belongs to the test: pinned memory that is still there, and buffers.
#pragma once

#include "fuzz/parameters.hpp"

namespace berth::fuzz {

/// Any address, mostly of or in a thing of this kind; the function must not touch host memory by
/// it.
struct Address {
  Kind kind;
  std::optional<Kind> ends;   ///< the thing is gone when the call succeeds
  std::optional<Kind> makes;  ///< a thing at the same address

  struct Drawn {
    std::optional<Kind> ends;
    std::optional<Kind> makes;
    std::uint64_t address;

    [[nodiscard]] Bits value() const { return {address}; }
    void after(Turn& turn, bool succeeded) const;
  };
  [[nodiscard]] Drawn draw(Turn& turn) const;
};

constexpr Address address(Kind kind) {
  return {kind, {}, {}};
}
constexpr Address ending_address(Kind kind) {
  return {kind, kind, {}};
}
/// Where the call makes a thing of kind `makes` inside one of kind `kind`.
constexpr Address place_in(Kind kind, Kind makes) {
  return {kind, {}, makes};
}

/// One side of a copy.
struct CopyAddress {
  [[nodiscard]] Number::Drawn draw(Turn& turn) const;
};
inline constexpr CopyAddress copy_address{};

/// Memory of the host to be registered.
struct HostAddress {
  [[nodiscard]] Address::Drawn draw(Turn& turn) const;
};
inline constexpr HostAddress host_address{};

/// How much of the memory that the parameters so far name; with none named, how much to make.
struct Size {
  [[nodiscard]] Number::Drawn draw(Turn& turn) const;
};
inline constexpr Size size{};

/// An address that the function gives, of as much as was asked for.
struct MadeMemory {
  Kind kind;
  bool on_host;

  struct Drawn : Result {
    Drawn(Turn& turn, MadeMemory of) : Result(turn), kind(of.kind), on_host(of.on_host) {}
    Kind kind;
    bool on_host;
    void after(Turn& turn, bool succeeded);
  };
  [[nodiscard]] Drawn draw(Turn& turn) const { return {turn, *this}; }
};
constexpr MadeMemory made_memory(Kind kind, bool on_host = false) {
  return {kind, on_host};
}

/// Clears the pageable memory of copies, so that no input depends on an earlier one.
void clear_buffers();

}  // namespace berth::fuzz
