// SPDX-License-Identifier: Apache-2.0
// In what the variants of the plug-in differ.
#pragma once

#include <cstddef>
#include <cstdint>

namespace berth::pjrt {

/// Lists of extensions, most of which no plug-in should have.
enum class Extensions : std::uint8_t { none, some, endless, short_one, wild, unaligned };

struct Variant {
  // The version of the API.
  int major = 0;
  int minor = 81;
  std::size_t version_bytes = 24;  ///< the size that the version says it has
  std::size_t slots = 118;         ///< of the table; those behind do not exist
  std::size_t longer_bytes = 0;    ///< by which every struct is longer than berth knows
  bool is_shorter = false;         ///< some structs are, and no struct may have another size
  bool is_terse = false;           ///< a refusal does not say which size is expected
  bool has_await = true;           ///< PJRT_Event_Await
  Extensions extensions = Extensions::none;
};

/// Of the module, each of which has a variant.cpp of its own.
extern const Variant variant;

}  // namespace berth::pjrt
