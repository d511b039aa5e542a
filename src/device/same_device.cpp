// SPDX-License-Identifier: Apache-2.0
#include "berth/same_device.hpp"

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "base/format.hpp"
#include "base/quoted.hpp"

namespace berth {
namespace {

/// Further arguments are only counted, so that the message stays readable.
constexpr std::size_t kIndicesListedMax = 8;

std::string name_of(std::span<const DeviceArgument> arguments, std::size_t index) {
  const std::string_view name = arguments[index].name;
  return name.empty() ? format_text("argument {}", index + 1) : quoted(name);
}

/// The device of most arguments; of several such devices, the one that comes first.
Device expected_device(std::span<const DeviceArgument> arguments) {
  struct Count {
    Device device;
    std::size_t arguments;
  };
  std::vector<Count> counts;
  for (const DeviceArgument& argument : arguments) {
    auto count = std::ranges::find(counts, argument.device, &Count::device);
    if (count == counts.end()) count = counts.insert(count, {argument.device, 0});
    ++count->arguments;
  }
  return std::ranges::max_element(counts, {}, &Count::arguments)->device;
}

/// "\"a\" is on cpu, argument 3 is on cuda:0 and 4 more are on other devices".
std::string list_places(std::span<const DeviceArgument> arguments,
                        const std::vector<std::size_t>& indices) {
  std::string list;
  const std::size_t listed = std::min(indices.size(), kIndicesListedMax);
  for (std::size_t i = 0; i < listed; ++i) {
    if (i > 0) list += i + 1 == indices.size() ? " and " : ", ";
    list += format_text("{} is on {}", name_of(arguments, indices[i]),
                        arguments[indices[i]].device.to_string());
  }
  if (listed < indices.size())
    list += format_text(" and {} more are not there either", indices.size() - listed);
  return list;
}

std::string fill_in(std::string_view hint, const std::string& device) {
  constexpr std::string_view kPlace = "{device}";
  std::string text;
  for (;;) {
    const auto at = hint.find(kPlace);
    text += on_one_line(hint.substr(0, at));
    if (at == std::string_view::npos) return text;
    text += device;
    hint.remove_prefix(at + kPlace.size());
  }
}

}  // namespace

void detail::refuse_different_devices(std::string_view operation,
                                      std::span<const DeviceArgument> arguments,
                                      std::string_view hint) {
  const Device expected = expected_device(arguments);
  const std::string device = expected.to_string();
  std::vector<std::size_t> there;
  std::vector<std::size_t> elsewhere;
  for (std::size_t index = 0; index < arguments.size(); ++index)
    (arguments[index].device == expected ? there : elsewhere).push_back(index);

  std::string message = format_text("{}: expected all arguments on {}, where {} ",
                                    on_one_line(operation), device, name_of(arguments, there[0]));
  if (there.size() == 1)
    message += "is";
  else
    message += format_text("and {} more are", there.size() - 1);
  message += format_text(", but {}; ", list_places(arguments, elsewhere));
  message += hint.empty() ? format_text("move {} with a copy to {}",
                                        elsewhere.size() == 1 ? "it" : "them", device)
                          : fill_in(hint, device);
  throw InvalidArgument(message);
}

}  // namespace berth
