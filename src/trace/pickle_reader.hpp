// SPDX-License-Identifier: Apache-2.0
// Python's pickle, protocols 0 to 5, as data: the opcodes that make numbers, texts, lists, tuples
// and dictionaries. An opcode that would call or construct an object is refused.
#pragma once

#include <string>
#include <string_view>

#include "trace/plain_data.hpp"

namespace berth {

/// The value of the pickle. Its texts are views into `content` if possible, so `content` must
/// outlive the result. Data after the pickle's end is ignored.
/// Errors  InvalidArgument that names `name`, the offset, and the opcode: not a pickle, truncated,
///         an opcode that names or builds a class, or more than `limits`.
PlainValue read_pickle(const std::string& name, std::string_view content, PlainData& data,
                       const PlainLimits& limits = {});

}  // namespace berth
