// SPDX-License-Identifier: Apache-2.0
#include "fuzz/things.hpp"

#include <algorithm>

namespace berth::fuzz {
namespace {

Thing newest(const std::vector<Thing>& things, std::size_t choice) {
  return things.empty() ? Thing{} : things[things.size() - 1 - choice % things.size()];
}

}  // namespace

void Things::add(Kind kind, Thing thing) {
  std::vector<Thing>& live = kinds_[static_cast<std::size_t>(kind)].live;
  const auto same = [&](const Thing& known) { return known.value == thing.value; };
  std::erase_if(live, same);  // what is retained twice is one thing
  live.push_back(thing);
}

void Things::end(Kind kind, std::uint64_t value) {
  OfKind& things = kinds_[static_cast<std::size_t>(kind)];
  const auto found = std::find_if(things.live.begin(), things.live.end(),
                                  [&](const Thing& thing) { return thing.value == value; });
  if (found == things.live.end()) return;
  things.gone.push_back(*found);
  things.live.erase(found);
}

Thing Things::live(Kind kind, std::size_t choice) const {
  return newest(of(kind).live, choice);
}

Thing Things::gone(Kind kind, std::size_t choice) const {
  return newest(of(kind).gone, choice);
}

}  // namespace berth::fuzz
