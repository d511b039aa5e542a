// SPDX-License-Identifier: Apache-2.0
// Damages input at random. The same seed causes the same damage.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <string>
#include <string_view>

namespace berth::test {

class ByteMutator {
 public:
  /// `tokens` are texts that the reader of the input recognizes, which are inserted.
  ByteMutator(std::uint64_t seed, std::span<const std::string_view> tokens)
      : tokens_(tokens), random_(seed) {}

  std::string mutate(std::string input) {
    for (std::size_t changes = 1 + below(4); changes > 0; --changes) change(input);
    return input;
  }

  std::size_t below(std::size_t bound) { return random_() % std::max<std::size_t>(bound, 1); }

 private:
  void change(std::string& input) {
    const std::size_t at = below(input.size() + 1);
    const std::size_t size = std::min(below(16), input.size() - at);
    switch (below(6)) {
      case 0:
        if (at < input.size()) input[at] = static_cast<char>(random_());
        break;
      case 1:
        if (at < input.size()) input[at] = static_cast<char>(input[at] ^ 1 << below(8));
        break;
      case 2:
        input.erase(at, size);
        break;
      case 3:
        input.insert(at, input.substr(below(input.size()), size));
        break;
      case 4:
        input.insert(at, std::string(tokens_[below(tokens_.size())]));
        break;
      default:
        input.resize(at);
        break;
    }
  }

  std::span<const std::string_view> tokens_;
  std::mt19937_64 random_;
};

}  // namespace berth::test
