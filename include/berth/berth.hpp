// SPDX-License-Identifier: Apache-2.0
// All of berth. Include a single header instead where compile time matters.
#pragma once

#include "berth/allocator.hpp"
#include "berth/bytes.hpp"
#include "berth/completion_queue.hpp"
#include "berth/configuration.hpp"
#include "berth/copier.hpp"
#include "berth/cross_stream_reuse.hpp"
#include "berth/current_stream.hpp"
#include "berth/device.hpp"
#include "berth/device_allocator.hpp"
#include "berth/device_facts.hpp"
#include "berth/device_guard.hpp"
#include "berth/device_pick.hpp"
#include "berth/device_registry.hpp"
#include "berth/device_type.hpp"
#include "berth/error.hpp"
#include "berth/event.hpp"
#include "berth/event_pool.hpp"
#include "berth/fork_join.hpp"
<<<<<<< HEAD
#include "berth/handle_pool.hpp"
#include "berth/host_allocator.hpp"
=======
#include "berth/local_rank.hpp"
>>>>>>> 7682c99 (A device is picked by use, free memory, local rank or UUID)
#include "berth/memory_limits.hpp"
#include "berth/pinned_allocator.hpp"
#include "berth/relaxed_capture_scope.hpp"
#include "berth/report.hpp"
#include "berth/runtime.hpp"
#include "berth/same_device.hpp"
#include "berth/statistics.hpp"
#include "berth/stream.hpp"
#include "berth/stream_pool.hpp"
#include "berth/trace.hpp"
