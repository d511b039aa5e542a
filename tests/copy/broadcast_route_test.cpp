// SPDX-License-Identifier: Apache-2.0
#include "collective/broadcast_route.hpp"

#include <map>
#include <optional>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

namespace broadcast_route_test {

using namespace berth;

namespace {

using Indices = std::vector<std::size_t>;
using Groups = std::vector<Indices>;

/// Access, as far as the driver ranks it and NVML tells.
PeerFacts access(std::optional<int> rank = std::nullopt,
                 std::optional<PeerLink> link = std::nullopt) {
  return {true, std::nullopt, rank, link};
}

/// A machine of some devices; pairs that nothing is said of do not reach each other.
class Machine {
 public:
  void connect(int from, int to, PeerFacts facts) { facts_[{from, to}] = facts; }
  /// All reach each other.
  void island(const std::vector<int>& members, PeerFacts facts = access()) {
    for (const int from : members) {
      for (const int to : members) connect(from, to, facts);
    }
  }
  [[nodiscard]] PeersOf peers() const {
    return [this](Device from, Device to) -> const PeerFacts& {
      static const PeerFacts kSame{true, true, 0, PeerLink::same_device};
      static const PeerFacts kNone{false, std::nullopt, std::nullopt, std::nullopt};
      if (from == to) return kSame;
      const auto known = facts_.find({from.ordinal(), to.ordinal()});
      return known == facts_.end() ? kNone : known->second;
    };
  }

 private:
  std::map<std::pair<int, int>, PeerFacts> facts_;
};

std::vector<Device> cuda(const std::vector<int>& ordinals) {
  std::vector<Device> devices;
  for (const int ordinal : ordinals) devices.push_back(Device::cuda(ordinal));
  return devices;
}

}  // namespace

TEST_CASE("a chain of devices that are all alike keeps their order, the source's own first") {
  Machine machine;
  machine.island({0, 1, 2, 3});
  CHECK(chain_order(Device::cuda(0), cuda({1, 2, 3}), machine.peers()) == Indices{0, 1, 2});
  CHECK(chain_order(Device::cuda(2), cuda({1, 3, 2, 0}), machine.peers()) == Indices{2, 0, 1, 3});
  CHECK(chain_order(Device::cuda(0), {}, machine.peers()).empty());
}

TEST_CASE("a chain continues from each device to the one with the best path") {
  Machine machine;
  machine.island({0, 1, 2, 3}, access(1));
  for (const auto& [from, to] : {std::pair(0, 3), std::pair(3, 1), std::pair(1, 2)}) {
    machine.connect(from, to, access(0));
    machine.connect(to, from, access(0));
  }
  CHECK(chain_order(Device::cuda(0), cuda({1, 2, 3}), machine.peers()) == Indices{2, 0, 1});

  Machine by_link;  // where the driver has no rank
  by_link.island({0, 1, 2, 3}, access({}, PeerLink::system));
  by_link.connect(3, 0, access({}, PeerLink::nvlink));
  by_link.connect(2, 3, access({}, PeerLink::pci_switch));
  CHECK(chain_order(Device::cuda(0), cuda({1, 2, 3}), by_link.peers()) == Indices{2, 1, 0});
}

TEST_CASE("a chain leaves devices that reach each other only once it has visited them all") {
  Machine machine;
  machine.island({0, 2, 4});
  machine.island({1, 3, 5});
  CHECK(chain_order(Device::cuda(0), cuda({1, 2, 3, 4, 5}), machine.peers()) ==
        Indices{1, 3, 0, 2, 4});
}

TEST_CASE("access counts in the direction of the fetching device") {
  Machine machine;
  machine.connect(0, 1, access());  // cuda:1 cannot fetch from cuda:0
  machine.connect(2, 0, access());
  CHECK(chain_order(Device::cuda(0), cuda({1, 2}), machine.peers()) == Indices{1, 0});
}

TEST_CASE("islands are those whose devices all reach each other, both ways") {
  Machine machine;
  machine.island({0, 2, 4});
  machine.island({1, 3});
  CHECK(islands(cuda({0, 1, 2, 3, 4, 5}), machine.peers()) == Groups{{0, 2, 4}, {1, 3}, {5}});
  CHECK(islands({}, machine.peers()).empty());
  machine.connect(5, 1, access());
  machine.connect(5, 3, access());  // not back
  CHECK(islands(cuda({1, 3, 5}), machine.peers()) == Groups{{0, 1}, {2}});
  CHECK(islands(cuda({5, 5}), machine.peers()) == Groups{{0, 1}});
}

TEST_CASE("the devices of an island stand in the order of a chain") {
  Machine machine;
  machine.island({0, 1, 2, 3}, access(1));
  machine.connect(3, 0, access(0));
  CHECK(islands(cuda({0, 1, 2, 3}), machine.peers()) == Groups{{0, 3, 1, 2}});
}

}  // namespace broadcast_route_test
