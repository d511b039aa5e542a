// SPDX-License-Identifier: Apache-2.0
// Inputs that are made and not found: seeds for a fuzzer that learns, and random ones for a test.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

namespace berth::fuzz {

/// Writes an input.
class Writer {
 public:
  explicit Writer(unsigned switches, std::string_view config = "", std::string_view faults = "",
                  std::string_view visible = "");
  /// One record; what is not in `parameters` is ordinary.
  Writer& act(std::string_view action, std::initializer_list<std::uint8_t> parameters = {});
  Writer& act(std::size_t action, std::string_view decisions);
  [[nodiscard]] const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

/// A driver that is in use: a context, and of each thing that work needs one or two.
void furnish(Writer& writer);

struct Seed {
  std::string name;
  std::string bytes;
};

/// Programs as people write them, in every mode; together they call every function.
std::vector<Seed> seeds();
/// The same for the same number. Mostly reasonable, so that it gets somewhere.
std::string random_input(std::uint64_t number);
/// Words that the texts at the beginning of an input are made of.
std::vector<std::string> words();

}  // namespace berth::fuzz
