// SPDX-License-Identifier: Apache-2.0
// RuntimeOptions as text: "bytes_reserved_max=90%, release_unused_after=10s". For files, command
// lines and the environment variable BERTH_CONF. docs/configuration.md lists every key.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "berth/export.h"
#include "berth/runtime.hpp"

namespace berth {

/// Applies `text` to `options`: entries key=value, separated by commas, with or without spaces.
/// Keys may come in any order, each at most once. Options without an entry are unchanged. Empty
/// text is valid.
/// Errors  InvalidArgument that names every invalid entry and what is accepted.
[[nodiscard]] BERTH_API RuntimeOptions configure(RuntimeOptions options, std::string_view text);

/// Applies BERTH_CONF to `options`, as Runtime's constructor does. If the variable is not set,
/// nothing changes.
/// Errors  InvalidArgument that begins with "BERTH_CONF: ".
[[nodiscard]] BERTH_API RuntimeOptions configure_from_environment(RuntimeOptions options);

/// One key with its value.
struct ConfigurationEntry {
  std::string key;
  std::string value;     ///< as configure() reads it; "" if the options name no driver
  std::string accepted;  ///< the accepted values, for people
};

/// Returns every key with its value in `options`.
/// Errors  InvalidArgument: an option whose type is an enumeration has another number.
[[nodiscard]] BERTH_API std::vector<ConfigurationEntry> describe(const RuntimeOptions& options);

/// The result of configure_like_pytorch().
struct PytorchConfiguration {
  RuntimeOptions options;
  /// One line for each key that berth does not need, or reads differently from PyTorch, with the
  /// reason.
  std::vector<std::string> remarks;
};

/// Applies `text`, the value of PYTORCH_ALLOC_CONF or PYTORCH_CUDA_ALLOC_CONF, to `options`. For
/// frameworks whose users already have such settings; berth itself reads neither variable.
///
/// The grammar "key:value,key:value", the keys and the values are those of PyTorch 2.14.
/// docs/configuration.md describes the effect of each. Keys without effect are checked too.
/// Errors  InvalidArgument that names every invalid entry and what is accepted.
[[nodiscard]] BERTH_API PytorchConfiguration configure_like_pytorch(RuntimeOptions options,
                                                                    std::string_view text);

}  // namespace berth
