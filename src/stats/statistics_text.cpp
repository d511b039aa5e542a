// SPDX-License-Identifier: Apache-2.0
// Statistics for people, on 80 columns.
#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "berth/bytes.hpp"
#include "berth/statistics.hpp"

#include "base/format.hpp"
#include "stats/memory_text.hpp"
#include "stats/text_format.hpp"

namespace berth {
namespace {

constexpr std::size_t kIndent = 2;
constexpr std::size_t kGap = 2;

void append_driver(std::string& text, const DriverInfo& driver) {
  std::string words = driver.name;
  if (driver.name == "sim") words += " (simulated)";
  words += driver.usable
               ? format_text(", CUDA {}.{}", driver.version / 1000, driver.version % 1000 / 10)
               : ", not usable: " + driver.problem;
  append_wrapped(text, "driver   ", words);
}

void append_devices(std::string& text, const std::vector<DeviceInfo>& devices) {
  if (devices.empty()) {
    append_line(text, "devices  none");
    return;
  }
  text += '\n';
  append_line(text, format_text("{:<8}  {:>8}  {:<16}  {}", "device", "memory", "PCI", "name"));
  for (const DeviceInfo& device : devices) {
    const std::string label = device.logical ? format_text("cuda:{}", *device.logical) : "hidden";
    append_wrapped(text,
                   format_text("{:<8}  {:>8}  {:<16}  ", label, format_bytes(device.memory_bytes),
                               device.pci_bus_id),
                   device.name);
  }
}

/// In two columns, down and then right, if they fit.
void append_driver_calls(std::string& text, const std::vector<DriverCallCount>& calls) {
  if (calls.empty()) return;
  std::size_t name_width = 0;
  std::size_t count_width = 0;
  for (const DriverCallCount& call : calls) {
    name_width = std::max(name_width, call.function.size());
    count_width = std::max(count_width, group_digits(call.calls).size());
  }
  const std::size_t cell_width = kIndent + name_width + kGap + count_width;
  const std::size_t columns = 2 * cell_width <= kTextColumns ? 2 : 1;
  const std::size_t rows = (calls.size() + columns - 1) / columns;
  text += "\ndriver calls\n";
  for (std::size_t row = 0; row < rows; ++row) {
    std::string line;
    for (std::size_t i = row; i < calls.size(); i += rows)
      line += format_text("{:{}}{:<{}}{:>{}}", "", kIndent, calls[i].function, name_width + kGap,
                          group_digits(calls[i].calls), count_width);
    append_line(text, line);
  }
}

void append_copies(std::string& text, const CopyCounters& copies) {
  if (copies.bytes_copied == 0) return;
  append_line(text, "");
  append_wrapped(text, "copies   ",
                 format_text("{} in {} direct, {} staged, {} on the host",
                             format_bytes(copies.bytes_copied), group_digits(copies.copies_direct),
                             group_digits(copies.copies_staged), group_digits(copies.copies_host)));
  if (copies.copies_by_driver > 0)
    append_line(text, format_text("         {} of pageable memory by the driver",
                                  group_digits(copies.copies_by_driver)));
  if (copies.staging_waits > 0)
    append_line(text, format_text("         {} waits for staging memory",
                                  group_digits(copies.staging_waits)));
}

void append_backend_devices(std::string& text, const std::vector<BackendDevice>& devices) {
  for (const BackendDevice& each : devices) {
    text += '\n';
    append_wrapped(text, format_text("{:<8}  ", each.device.to_string()),
                   format_text("{}, {}", each.description.kind, each.backend));
    const BufferCounters& buffers = each.buffers;
    append_line(
        text, format_text("  buffers   {} with {}, peak {}", group_digits(buffers.buffers_live),
                          format_bytes(buffers.bytes_live), format_bytes(buffers.bytes_live_peak)));
    append_line(text,
                format_text("  copies    {} written, {} read, {} between devices",
                            format_bytes(buffers.bytes_written), format_bytes(buffers.bytes_read),
                            format_bytes(buffers.bytes_copied)));
    if (buffers.staging_bytes > 0) {
      append_line(text,
                  format_text("  staging   {} for files", format_bytes(buffers.staging_bytes)));
    }
    if (each.memory.bytes_used && each.memory.bytes_limit) {
      append_line(text,
                  format_text("  memory    {} of {} in use", format_bytes(*each.memory.bytes_used),
                              format_bytes(*each.memory.bytes_limit)));
    }
  }
}

}  // namespace

std::string to_text(const Statistics& statistics) {
  std::string text;
  append_driver(text, statistics.driver);
  append_devices(text, statistics.devices);
  for (const MemorySnapshot& snapshot : statistics.allocators) {
    text += '\n';
    append_memory_text(text, snapshot);
  }
  append_driver_calls(text, statistics.driver_calls);
  append_copies(text, statistics.copies);
  append_backend_devices(text, statistics.backend_devices);
  return text;
}

}  // namespace berth
