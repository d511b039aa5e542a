// SPDX-License-Identifier: Apache-2.0
// What reads bytes that come from elsewhere: files, variables and command lines.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace berth::fuzz {

struct ReaderTarget {
  std::string_view name;
  /// Any bytes are either read or refused with an InvalidArgument that a terminal can show.
  /// Otherwise the process is stopped.
  void (*run)(std::string_view bytes);
  /// Input that is accepted, and input that was a fault once.
  std::vector<std::string> (*seeds)();
  /// Parts of input that mean something.
  std::span<const std::string_view> words;
};

std::span<const ReaderTarget> reader_targets();
/// nullptr if there is none of that name.
const ReaderTarget* find_reader_target(std::string_view name);

}  // namespace berth::fuzz
