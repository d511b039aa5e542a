// SPDX-License-Identifier: Apache-2.0
// Names and short descriptions of the driver's result codes.
#pragma once

#include <cuda.h>

#include <string>

namespace berth::sim {

struct ErrorName {
  CUresult code;
  const char* name;
  const char* description;
};

/// Null for an unknown code.
const ErrorName* find_error_name(CUresult code);

/// Its name, or else its number.
std::string error_text(CUresult code);

}  // namespace berth::sim
