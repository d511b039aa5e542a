// SPDX-License-Identifier: Apache-2.0
#include "sim/device/pci_address.hpp"

#include <charconv>

namespace berth::sim {
namespace {

/// Reads all of `text` as one number.
bool read_part(std::string_view text, unsigned& number) {
  const auto [end, error] = std::from_chars(text.begin(), text.end(), number, 16);
  return error == std::errc{} && end == text.end();
}

}  // namespace

std::optional<PciAddress> parse_pci_address(std::string_view text) {
  constexpr auto none = std::string_view::npos;
  PciAddress address;
  const std::size_t last = text.rfind(':');
  if (last == none) return std::nullopt;
  std::string_view place = text.substr(last + 1);
  std::string_view bus = text.substr(0, last);
  const std::size_t dot = place.find('.');
  if (dot != none) {
    if (!read_part(place.substr(dot + 1), address.function)) return std::nullopt;
    place = place.substr(0, dot);
  }
  const std::size_t first = bus.find(':');
  if (first == none && dot == none) return std::nullopt;
  if (first != none) {
    if (!read_part(bus.substr(0, first), address.domain)) return std::nullopt;
    bus = bus.substr(first + 1);
  }
  if (!read_part(bus, address.bus) || !read_part(place, address.device)) return std::nullopt;
  return address;
}

}  // namespace berth::sim
