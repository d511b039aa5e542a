/* SPDX-License-Identifier: Apache-2.0 */
// The version of these headers, and of the library at run time.
#ifndef BERTH_VERSION_H
#define BERTH_VERSION_H

#include "berth/export.h"

#define BERTH_VERSION_MAJOR 0
#define BERTH_VERSION_MINOR 1
#define BERTH_VERSION_PATCH 0
/// The version as one number that grows: 10203 is 1.2.3.
#define BERTH_VERSION \
  (BERTH_VERSION_MAJOR * 10000 + BERTH_VERSION_MINOR * 100 + BERTH_VERSION_PATCH)

#ifdef __cplusplus
extern "C" {
#endif

/// BERTH_VERSION of the library at run time, which may be newer than these headers.
BERTH_API int berth_version(void);

#ifdef __cplusplus
}
#endif

#endif
