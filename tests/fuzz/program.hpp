// SPDX-License-Identifier: Apache-2.0
// The common part of the fuzzers' main programs: the input that runs is named if it ends the
// process, by a signal or by a finding of a sanitizer.
#pragma once

#include <cstdint>
#include <string>

namespace berth::fuzz {

/// From now on a signal that ends the process prints `text`, which stays, and the input. Once.
void name_inputs_in_signals(const char* text);
/// Names the input that runs from now on.
void note_running(const std::string& input);

/// The content of a file; if it cannot be read, the process ends with status 2.
std::string read_input(const char* program, const char* path);
/// False unless the whole text is a number.
bool read_number(const std::string& text, std::uint64_t& number);

}  // namespace berth::fuzz
