// SPDX-License-Identifier: Apache-2.0
// A PyTorch memory snapshot as a trace. docs/traces.md describes the conversion.
#pragma once

#include <string>
#include <string_view>

#include "berth/trace.hpp"

#include "trace/plain_data.hpp"

namespace berth {

/// `encoding` is the format of the snapshot, "pickle" or "JSON", for the trace's header.
/// `host_bytes_max` limits `data` and the result.
/// Errors  InvalidArgument that names `name` and the place in the snapshot: no memory snapshot, no
///         events, or contradictory events.
Trace trace_from_snapshot(const std::string& name, std::string_view encoding, const PlainData& data,
                          PlainValue root, std::uint64_t host_bytes_max = kTraceHostBytesMax);

}  // namespace berth
