// SPDX-License-Identifier: Apache-2.0
// Whether this code is instrumented. GCC and Clang have different macros for it.
#pragma once

#if defined(__SANITIZE_ADDRESS__)
#define BERTH_UNDER_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define BERTH_UNDER_ASAN 1
#endif
#endif

#if defined(__SANITIZE_THREAD__)
#define BERTH_UNDER_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define BERTH_UNDER_TSAN 1
#endif
#endif

namespace berth::test {

#if defined(BERTH_UNDER_ASAN) || defined(BERTH_UNDER_TSAN)
inline constexpr bool kIsSanitized = true;
#else
inline constexpr bool kIsSanitized = false;
#endif

}  // namespace berth::test
