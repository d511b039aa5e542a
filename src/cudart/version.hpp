// SPDX-License-Identifier: Apache-2.0
// The only content in which the two libraries differ; each defines it.
#pragma once

/// The result of cudaRuntimeGetVersion: 1000 * major + 10 * minor.
extern "C" int berth_cudart_version();
