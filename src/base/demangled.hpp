// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace berth {

/// "add(float*, int)" of "_Z3addPfi"; empty if `name` is not mangled.
std::string demangled(const std::string& name);

}  // namespace berth
