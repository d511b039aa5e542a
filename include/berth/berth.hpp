// SPDX-License-Identifier: Apache-2.0
// All of berth. Include a single header instead where compile time matters.
#pragma once

#include "berth/allocator.hpp"
#include "berth/bytes.hpp"
#include "berth/configuration.hpp"
#include "berth/copier.hpp"
#include "berth/cross_stream_reuse.hpp"
#include "berth/current_stream.hpp"
#include "berth/device.hpp"
#include "berth/device_allocator.hpp"
#include "berth/device_registry.hpp"
#include "berth/error.hpp"
#include "berth/event.hpp"
#include "berth/event_pool.hpp"
#include "berth/memory_limits.hpp"
#include "berth/pinned_allocator.hpp"
#include "berth/report.hpp"
#include "berth/runtime.hpp"
#include "berth/statistics.hpp"
#include "berth/stream.hpp"
#include "berth/stream_pool.hpp"
#include "berth/trace.hpp"
