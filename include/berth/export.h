// SPDX-License-Identifier: Apache-2.0
// Marks the symbols that the shared library exports; all others are hidden.
#pragma once

#define BERTH_API __attribute__((visibility("default")))
/// Marks the definition of a part that an exported class keeps to itself.
#define BERTH_HIDDEN __attribute__((visibility("hidden")))
