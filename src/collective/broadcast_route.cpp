// SPDX-License-Identifier: Apache-2.0
#include "collective/broadcast_route.hpp"

#include <algorithm>
#include <limits>
#include <tuple>

namespace berth {
namespace {

bool has_access(const PeerFacts& facts) {
  return facts.access.value_or(false);
}

/// Lower is better. Unknown is worst.
auto distance(const PeerFacts& facts) {
  constexpr int kUnknown = std::numeric_limits<int>::max();
  return std::tuple(!has_access(facts), facts.performance_rank.value_or(kUnknown),
                    facts.link ? static_cast<int>(*facts.link) : kUnknown);
}

}  // namespace

std::vector<std::size_t> chain_order(Device first, std::span<const Device> devices,
                                     const PeersOf& peers) {
  std::vector<std::size_t> left(devices.size());
  for (std::size_t index = 0; index < left.size(); ++index) left[index] = index;
  std::vector<std::size_t> order;
  Device last = first;
  while (!left.empty()) {
    // The next device fetches, so its path to its predecessor counts.
    const auto next = std::ranges::min_element(
        left, {}, [&](std::size_t index) { return distance(peers(devices[index], last)); });
    order.push_back(*next);
    last = devices[*next];
    left.erase(next);
  }
  return order;
}

std::vector<std::vector<std::size_t>> islands(std::span<const Device> devices,
                                              const PeersOf& peers) {
  std::vector<std::vector<std::size_t>> groups;
  for (std::size_t index = 0; index < devices.size(); ++index) {
    const auto reach_each_other = [&](std::size_t other) {
      return has_access(peers(devices[index], devices[other])) &&
             has_access(peers(devices[other], devices[index]));
    };
    const auto home = std::ranges::find_if(groups, [&](const std::vector<std::size_t>& group) {
      return std::ranges::all_of(group, reach_each_other);
    });
    if (home == groups.end())
      groups.push_back({index});
    else
      home->push_back(index);
  }
  for (std::vector<std::size_t>& group : groups) {
    std::vector<Device> members;
    for (const std::size_t index : group) members.push_back(devices[index]);
    const std::span<const Device> others = std::span(members).subspan(1);
    std::vector<std::size_t> ordered{group.front()};
    for (const std::size_t index : chain_order(members.front(), others, peers))
      ordered.push_back(group[index + 1]);
    group = std::move(ordered);
  }
  return groups;
}

}  // namespace berth
