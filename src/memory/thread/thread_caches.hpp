// SPDX-License-Identifier: Apache-2.0
// The ThreadCaches of one allocator, one for each thread that has used it.
#pragma once

#include "base/per_thread.hpp"
#include "memory/thread/thread_cache.hpp"

namespace berth {

using ThreadCaches = PerThread<ThreadCache>;

}  // namespace berth
