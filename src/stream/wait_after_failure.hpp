// SPDX-License-Identifier: Apache-2.0
// Queries and waits after something has failed. They are repeated, because that call alone may have
// failed; a device that has failed answers each at once.
#pragma once

#include <cuda.h>

#include "berth/event.hpp"
#include "berth/stream.hpp"

namespace berth {

/// Attempts of a query or a wait.
inline constexpr int kAttemptsAfterFailure = 8;

/// Waits for `stream`, because work that was already submitted may still use memory of the caller.
/// A wait that keeps failing is reported. Does not wait for a captured stream: nothing runs there,
/// and a wait would invalidate the capture. A stream of which all queries fail is waited for.
void wait_after_failure(StreamRef stream) noexcept;
/// Waits for the work before `mark`, which is not captured, after a query of the event failed.
/// Reports nothing.
void wait_after_failure(EventRef mark) noexcept;
/// Queries `mark`, which is not captured.
[[nodiscard]] CUresult query_repeatedly(EventRef mark) noexcept;

}  // namespace berth
