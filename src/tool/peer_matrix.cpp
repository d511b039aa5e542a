// SPDX-License-Identifier: Apache-2.0
#include "tool/peer_matrix.hpp"

#include <algorithm>
#include <vector>

#include "tool/table.hpp"
#include "tool/wrapped.hpp"

namespace berth::tool {
namespace {

/// The number of columns that fit in 80 characters.
constexpr int kColumns = 8;

constexpr const char* kLegend =
    "A device on the left reaches the memory of one above through: nvlink; pci, switches of the "
    "bus; host, one host bridge; node, one NUMA node; system, several NUMA nodes. same: one "
    "device, or two instances of one. yes: the link is not known. no: no access.";

const char* word_for(PeerLink link) {
  switch (link) {
    case PeerLink::same_device:
      return "same";
    case PeerLink::nvlink:
      return "nvlink";
    case PeerLink::pci_switch:
      return "pci";
    case PeerLink::host_bridge:
      return "host";
    case PeerLink::numa_node:
      return "node";
    case PeerLink::system:
      return "system";
  }
  return "";
}

std::string cell(const PeerFacts& peer) {
  if (!peer.access) return "?";
  if (!*peer.access) return "no";
  return peer.link ? word_for(*peer.link) : "yes";
}

std::string part(const DeviceRegistry& devices, int first, int last) {
  std::vector<Column> columns = {{"from", 8}};
  for (int to = first; to < last; ++to) columns.push_back({Device::cuda(to).to_string(), 7});
  const Table table(std::move(columns));
  std::string text = table.header();
  for (int from = 0; from < devices.count(); ++from) {
    std::vector<std::string> cells = {Device::cuda(from).to_string()};
    for (int to = first; to < last; ++to)
      cells.push_back(cell(devices.peer(Device::cuda(from), Device::cuda(to))));
    text += table.row(cells);
  }
  return text;
}

}  // namespace

std::string peer_matrix(const DeviceRegistry& devices) {
  const int count = devices.count();
  if (count < 2) return {};
  std::string text;
  for (int first = 0; first < count; first += kColumns)
    text += part(devices, first, std::min(first + kColumns, count)) + "\n";
  return text + wrapped(kLegend, 0);
}

}  // namespace berth::tool
