// SPDX-License-Identifier: Apache-2.0
// Reads JSON as plain data, without an intermediate tree.
#pragma once

#include <string>
#include <string_view>

#include "trace/plain_data.hpp"

namespace berth {

/// Errors  InvalidArgument that names `name` and the offset: not JSON, or more than `limits`.
PlainValue read_json(const std::string& name, std::string_view content, PlainData& data,
                     const PlainLimits& limits = {});

}  // namespace berth
