// SPDX-License-Identifier: Apache-2.0
// The handle of a private pool.
#pragma once

#include "berth/memory_pool.h"
#include "berth/memory_pool.hpp"

struct berth_memory_pool {
  berth::MemoryPool pool;
};
