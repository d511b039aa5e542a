// SPDX-License-Identifier: Apache-2.0
// RuntimeOptions as text: "reserved_bytes_max=90%, release_unused_after=10s". For files,
// command lines and the environment variable BERTH_CONF; docs/configuration.md has every key.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "berth/export.h"
#include "berth/runtime.hpp"

namespace berth {

/// `options` with what `text` says: key=value, separated by commas, with or without spaces. Keys in
/// any order, each at most once; what is left out stays as it is; empty text is valid.
/// Errors  InvalidArgument that names every entry that is wrong, and what is accepted.
[[nodiscard]] BERTH_API RuntimeOptions configure(RuntimeOptions options, std::string_view text);

/// `options` with what BERTH_CONF says, as Runtime's constructor applies it; unset is empty text.
/// Errors  InvalidArgument that begins with "BERTH_CONF: ".
[[nodiscard]] BERTH_API RuntimeOptions configure_from_environment(RuntimeOptions options);

struct ConfigurationEntry {
  std::string key;
  std::string value;     ///< as configure() reads it; "" for a driver that the options do not name
  std::string accepted;  ///< which values, for people
};

/// Every key with its value in `options`.
[[nodiscard]] BERTH_API std::vector<ConfigurationEntry> describe(const RuntimeOptions& options);

struct PytorchConfiguration {
  RuntimeOptions options;
  /// One line for each key that berth has no need for, or takes otherwise than PyTorch: why.
  std::vector<std::string> remarks;
};

/// `options` with what `text` means, the value of PYTORCH_ALLOC_CONF or PYTORCH_CUDA_ALLOC_CONF:
/// for frameworks whose users bring their settings along. berth reads neither variable by itself.
///
/// The grammar is PyTorch's, "key:value,key:value", and so are keys and values, as of PyTorch 2.14;
/// docs/configuration.md says what becomes of each. Keys without effect are checked all the same.
/// Errors  InvalidArgument that names every entry that is wrong, and what is accepted.
[[nodiscard]] BERTH_API PytorchConfiguration configure_like_pytorch(RuntimeOptions options,
                                                                    std::string_view text);

}  // namespace berth
