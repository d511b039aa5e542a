// SPDX-License-Identifier: Apache-2.0
// The one thing in which the two libraries differ by content, defined by each of them.
#pragma once

/// The result of cudaRuntimeGetVersion: 1000 * major + 10 * minor.
extern "C" int berth_cudart_version();
