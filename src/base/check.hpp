// SPDX-License-Identifier: Apache-2.0
// Checks that stop the process before memory is corrupted: of berth's own invariants, and of
// mistakes of the program that no exception can report. All other mistakes throw InvalidArgument.
#pragma once

namespace berth {

/// Both write one line to standard error and abort. The one place where the library prints.
[[noreturn]] void check_failed(const char* condition, const char* file, int line) noexcept;
[[noreturn]] void stop_for_mistake(const char* mistake) noexcept;

}  // namespace berth

/// Always on: what a destructor or another function that cannot throw requires of the program.
/// `mistake` is a sentence that says what the program does wrong.
#define BERTH_CHECK_USE(condition, mistake) \
  (__builtin_expect(!(condition), 0) ? ::berth::stop_for_mistake(mistake) : void())

/// Always on: cheap conditions that guard memory safety. A failure is a bug in berth, never a
/// caller's mistake. The file is named without its folder, which depends on the machine.
#define BERTH_CHECK(condition)                                                                    \
  (__builtin_expect(!(condition), 0) ? ::berth::check_failed(#condition, __FILE_NAME__, __LINE__) \
                                     : void())

/// On unless built with -Db_ndebug=true: conditions that a hot path cannot afford.
#ifdef NDEBUG
#define BERTH_DCHECK(condition) static_cast<void>(0)
#else
#define BERTH_DCHECK(condition) BERTH_CHECK(condition)
#endif
