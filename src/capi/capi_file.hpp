// SPDX-License-Identifier: Apache-2.0
// The handle of an open file.
#pragma once

#include "berth/file.h"
#include "berth/file.hpp"

struct berth_file {
  berth::File file;
};
