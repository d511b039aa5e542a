// SPDX-License-Identifier: Apache-2.0
// Lists of extensions, most of which no plug-in should have.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "pjrt/pjrt_abi.hpp"

namespace berth::pjrt {

/// The kinds of PLUGIN_EXTENSIONS.
enum ExtensionList { kNoExtensions, kSome, kEndless, kShort, kWild, kUnaligned };

inline const Extension* extensions(int list) {
  static Extension third{sizeof(Extension), 4, nullptr};
  static Extension second{sizeof(Extension) + 64, 99, &third};
  static Extension first{sizeof(Extension), 5, &second};
  static char unaligned[sizeof(Extension) + 1];
  switch (list) {
    case kNoExtensions:
      return nullptr;
    case kEndless:
      third.next = &second;
      break;
    case kShort:
      third.struct_size = offsetof(Extension, next);
      break;
    case kWild:
      third.next = reinterpret_cast<const Extension*>(std::uintptr_t{0x10});
      break;
    case kUnaligned:
      std::memcpy(unaligned + 1, &third, sizeof third);
      second.next = reinterpret_cast<const Extension*>(unaligned + 1);
      break;
    default:
      break;
  }
  return &first;
}

}  // namespace berth::pjrt
