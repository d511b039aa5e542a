// SPDX-License-Identifier: Apache-2.0
// Libraries of berth that libberth opens on demand.
#pragma once

#include <string>

namespace berth {

/// The function `symbol` of the library `file`, which is searched beside libberth and then on the
/// loader's path. The library is never closed, because pointers into it are kept. Null if no
/// library has the function; each attempt is then appended to `problem`, after "; ".
void* find_in_own_library(const char* file, const char* symbol, std::string& problem);

}  // namespace berth
