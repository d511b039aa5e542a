// SPDX-License-Identifier: Apache-2.0
#include "sim/device/device.hpp"

#include "base/format.hpp"
#include "base/uuid_text.hpp"
#include "sim/random.hpp"

namespace berth::sim {
namespace {

/// A UUID of version 4 (RFC 4122), always the same for a seed.
std::array<unsigned char, 16> uuid_from(std::uint64_t seed) {
  std::array<unsigned char, 16> uuid{};
  Random digits(seed);
  for (unsigned char& byte : uuid) byte = static_cast<unsigned char>(digits.next() & 0xff);
  uuid[6] = static_cast<unsigned char>((uuid[6] & 0x0f) | 0x40);
  uuid[8] = static_cast<unsigned char>((uuid[8] & 0x3f) | 0x80);
  return uuid;
}

/// Every registry of devices asks for every address, and fmt takes twenty times as long.
void write_hexadecimal(int number, char* out, int digits) {
  for (int digit = digits - 1; digit >= 0; --digit) {
    out[digit] = "0123456789ABCDEF"[number & 15];
    number >>= 4;
  }
}

}  // namespace

DeviceFacts device_facts(const Config& config, int slot) {
  return {.slot = slot,
          .name = config.name,
          .uuid = uuid_from(static_cast<std::uint64_t>(slot) + 1),
          .pci_domain = 0,
          .pci_bus = 0x1a + slot,
          .pci_device = 0,
          .mig = {}};
}

DeviceFacts instance_facts(const DeviceFacts& parent, const MigInstance& instance, int slot,
                           std::uint64_t memory_bytes) {
  DeviceFacts facts = parent;
  facts.slot = slot;
  facts.name +=
      format_text(" MIG {}g.{}gb", instance.compute_slices, (memory_bytes + 1_GiB / 2) / 1_GiB);
  // Neither the UUID of a device, nor that of an instance of any other.
  facts.uuid = uuid_from(static_cast<std::uint64_t>(instance.parent + 1) << 8 |
                         static_cast<std::uint64_t>(instance.index + 1));
  facts.mig = instance;
  return facts;
}

std::string uuid_text(const DeviceFacts& facts) {
  return berth::uuid_text(facts.mig ? "MIG-" : "GPU-", facts.uuid.data());
}

std::string pci_address_text(const DeviceFacts& facts) {
  std::string text = "00000000:00:00.0";
  write_hexadecimal(facts.pci_domain, text.data(), 8);
  write_hexadecimal(facts.pci_bus, text.data() + 9, 2);
  write_hexadecimal(facts.pci_device, text.data() + 12, 2);
  return text;
}

}  // namespace berth::sim
