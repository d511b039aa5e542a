// SPDX-License-Identifier: Apache-2.0
// Checks of berth's own invariants. A failure is a bug in berth, never a caller's mistake (those
// throw InvalidArgument): the process stops with the broken condition before memory is corrupted.
#pragma once

namespace berth {

/// Writes one line to standard error and aborts. The one place where the library prints.
[[noreturn]] void check_failed(const char* condition, const char* file, int line) noexcept;

}  // namespace berth

/// Always on: cheap conditions that guard memory safety. The file is named without its folder,
/// which depends on the machine that builds.
#define BERTH_CHECK(condition)                                                                    \
  (__builtin_expect(!(condition), 0) ? ::berth::check_failed(#condition, __FILE_NAME__, __LINE__) \
                                     : void())

/// On unless built with -Db_ndebug=true: conditions that a hot path cannot afford.
#ifdef NDEBUG
#define BERTH_DCHECK(condition) static_cast<void>(0)
#else
#define BERTH_DCHECK(condition) BERTH_CHECK(condition)
#endif
