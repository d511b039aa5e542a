// SPDX-License-Identifier: Apache-2.0
// Marks what the shared library exports; everything else stays hidden.
#pragma once

#define BERTH_API __attribute__((visibility("default")))
