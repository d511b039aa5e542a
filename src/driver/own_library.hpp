// SPDX-License-Identifier: Apache-2.0
// Libraries of berth that libberth opens when they are needed.
#pragma once

#include <string>

namespace berth {

/// The function `symbol` of the library `file`, which is looked for beside libberth and then where
/// the loader searches. The library is never closed, because pointers into it are kept. Null if no
/// library has it; then each attempt is appended to `problem`, behind "; ".
void* find_in_own_library(const char* file, const char* symbol, std::string& problem);

}  // namespace berth
