// SPDX-License-Identifier: Apache-2.0
// All values of DeviceAllocatorOptions::cross_stream_reuse.
#pragma once

#include <doctest/doctest.h>

#include "berth/cross_stream_reuse.hpp"

namespace berth::test {

/// Runs `test` with each.
template <class Test>
void with_each_reuse(Test&& test) {
  for (const CrossStreamReuse reuse :
       {CrossStreamReuse::never, CrossStreamReuse::when_idle, CrossStreamReuse::behind_waits,
        CrossStreamReuse::before_growth}) {
    CAPTURE(static_cast<int>(reuse));
    test(reuse);
  }
}

}  // namespace berth::test
