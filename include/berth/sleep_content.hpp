// SPDX-License-Identifier: Apache-2.0
// The treatment of the content of sleeping memory.
#pragma once

#include "berth/cpp20.hpp"

namespace berth {

/// Whether memory keeps its content while a pool is asleep.
enum class SleepContent {
  discard,  ///< content is undefined after wake()
  keep,     ///< live blocks are copied to host memory, and back by wake()
};

}  // namespace berth
