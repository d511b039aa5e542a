// SPDX-License-Identifier: Apache-2.0
// The lists of extensions of the variants.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "pjrt/pjrt_abi.hpp"
#include "pjrt/plugin/variant.hpp"

namespace berth::pjrt {

inline const Extension* extensions(Extensions list) {
  static Extension third{sizeof(Extension), 4, nullptr};
  static Extension second{sizeof(Extension) + 64, 99, &third};
  static Extension first{sizeof(Extension), 5, &second};
  static char unaligned[sizeof(Extension) + 1];
  switch (list) {
    case Extensions::none:
      return nullptr;
    case Extensions::some:
      break;
    case Extensions::endless:
      third.next = &second;
      break;
    case Extensions::short_one:
      third.struct_size = offsetof(Extension, next);
      break;
    case Extensions::wild:
      third.next = reinterpret_cast<const Extension*>(std::uintptr_t{0x10});
      break;
    case Extensions::unaligned:
      std::memcpy(unaligned + 1, &third, sizeof third);
      second.next = reinterpret_cast<const Extension*>(unaligned + 1);
      break;
  }
  return &first;
}

}  // namespace berth::pjrt
