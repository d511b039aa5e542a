// SPDX-License-Identifier: Apache-2.0
// The variant of one module, by the members that VARIANT sets.
#include "pjrt/plugin/variant.hpp"

namespace berth::pjrt {

const Variant variant = {VARIANT};

}  // namespace berth::pjrt
