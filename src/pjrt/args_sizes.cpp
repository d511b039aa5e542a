// SPDX-License-Identifier: Apache-2.0
#include "pjrt/args_sizes.hpp"

#include <charconv>
#include <cstring>
#include <string>
#include <system_error>

namespace berth::pjrt {
namespace {

/// The number behind the first `word` of `text`, which then begins behind it.
std::optional<std::size_t> number_after(std::string_view word, std::string_view& text) {
  const std::size_t found = text.find(word);
  if (found == text.npos) return std::nullopt;
  text.remove_prefix(found + word.size());
  std::size_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return number;
}

}  // namespace

Error* call_with_size(const ArgsCall& call, void* args, std::size_t bytes) {
  if (bytes <= call.args_bytes) {
    std::memcpy(args, &bytes, sizeof bytes);  // struct_size is the first member
    return call.invoke(call.address, args);
  }
  // Not in place: members that berth does not know may lie in the padding of its own struct.
  alignas(std::max_align_t) std::byte longer[kArgsBytesMax] = {};
  std::memcpy(longer, args, call.args_bytes);
  std::memcpy(longer, &bytes, sizeof bytes);
  Error* const error = call.invoke(call.address, longer);
  std::memcpy(args, longer, call.args_bytes);
  return error;
}

std::optional<std::size_t> size_after_refusal(const ArgsCall& call, std::string_view text,
                                              std::size_t given, bool is_newer) {
  const std::string subject = std::string(call.name) + "_Args size: ";
  std::string_view rest = text.substr(0, text.find('\n'));
  if (const std::size_t found = rest.find(subject); found != rest.npos) {
    rest.remove_prefix(found + subject.size());
    const std::optional<std::size_t> expected = number_after("expected ", rest);
    const std::optional<std::size_t> got = number_after("got ", rest);
    const bool is_usable = expected && got == given && *expected != given &&
                           *expected >= call.needed_bytes && *expected <= kArgsBytesMax;
    return is_usable ? expected : std::nullopt;
  }
  const std::size_t longer = call.args_bytes + kGrowthBytes;
  return is_newer && given < longer ? std::optional(longer) : std::nullopt;
}

}  // namespace berth::pjrt
