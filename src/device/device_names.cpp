// SPDX-License-Identifier: Apache-2.0
#include "device/device_names.hpp"

#include <algorithm>
#include <cctype>

#include "base/uuid_text.hpp"

namespace berth {
namespace {

constexpr std::size_t kDomainDigits = 8;

bool is_hexadecimal(char c) {
  return std::isxdigit(static_cast<unsigned char>(c)) != 0;
}

/// Whether `text` matches `form`, in which an x is any hexadecimal digit.
bool has_form(std::string_view text, std::string_view form) {
  return std::equal(text.begin(), text.end(), form.begin(), form.end(), [](char c, char wanted) {
    return wanted == 'x' ? is_hexadecimal(c) : c == wanted;
  });
}

}  // namespace

std::string device_uuid_text(const CUuuid& uuid) {
  return uuid_text("GPU-", uuid.bytes);
}

std::string instance_uuid_text(const CUuuid& uuid) {
  return uuid_text("MIG-", uuid.bytes);
}

bool is_device_uuid(std::string_view text) {
  return has_form(text, "GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx");
}

bool is_pci_address(std::string_view text) {
  return has_form(text, "xxxx:xx:xx.x") || has_form(text, "xxxxxxxx:xx:xx.x");
}

std::string long_pci_address(std::string_view address) {
  std::string text(address);
  const std::size_t colon = text.find(':');
  if (colon < kDomainDigits) text.insert(0, kDomainDigits - colon, '0');
  std::transform(text.begin(), text.end(), text.begin(), [](char c) {
    return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  });
  return text;
}

}  // namespace berth
