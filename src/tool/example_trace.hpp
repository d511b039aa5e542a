// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

namespace berth::tool {

/// A recorded training run that is installed with berth: `share/berth/traces/gpt2-train.csv.gz` or
/// `bench/traces/gpt2-train.csv.gz` in the folder of this executable or the nearest one above it,
/// which covers installations and source trees; nullopt if there is none.
std::optional<std::string> find_example_trace();

}  // namespace berth::tool
