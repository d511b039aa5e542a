// SPDX-License-Identifier: Apache-2.0
// Included by every C++ header, so that an older language version gives one error instead of
// hundreds.
#pragma once

#if __cplusplus < 202002L
#error "berth needs C++20 (-std=c++20); a C++17 program can use the C API, berth/berth.h"
#include <berth_needs_cpp20>  // does not exist: the compiler stops here
#endif
