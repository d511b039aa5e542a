// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>

#include "support/sanitizers.hpp"

namespace berth::test {

/// Whether a test can make the start of threads fail; not with a sanitizer, which has its own
/// pthread_create.
inline constexpr bool kCanRefuseThreads = !kIsSanitized;

/// If true, the system starts no more threads.
inline std::atomic<bool> threads_refused = false;

/// Refuses threads as long as it exists.
struct RefusedThreads {
  RefusedThreads() { threads_refused = true; }
  ~RefusedThreads() { threads_refused = false; }
  RefusedThreads(const RefusedThreads&) = delete;
  RefusedThreads& operator=(const RefusedThreads&) = delete;
};

}  // namespace berth::test
