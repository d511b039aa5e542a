// SPDX-License-Identifier: Apache-2.0
// Python's pickle, protocols 0 to 5, as data: the opcodes that make numbers, texts, lists, tuples
// and dictionaries. Nothing is ever called or constructed; an opcode that would is refused.
#pragma once

#include <string>
#include <string_view>

#include "trace/plain_data.hpp"

namespace berth {

/// The one value of the pickle. Its texts are views into `content` where they can be, so `content`
/// must outlive what is made of it. Whatever follows the pickle's end is not looked at.
/// Errors  InvalidArgument that names `name`, the offset, and the opcode: not a pickle, cut off,
///         an opcode that names or builds a class, or more than `limits`.
PlainValue read_pickle(const std::string& name, std::string_view content, PlainData& data,
                       const PlainLimits& limits = {});

}  // namespace berth
