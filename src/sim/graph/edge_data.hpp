// SPDX-License-Identifier: Apache-2.0
// Only programmatic edges have data, and there are none.
#pragma once

#include <cuda.h>

#include <algorithm>
#include <cstddef>
#include <cstring>

namespace berth::sim {

inline bool have_data(const CUgraphEdgeData* edges, std::size_t count) {
  constexpr CUgraphEdgeData none{};
  return edges != nullptr && std::any_of(edges, edges + count, [&](const CUgraphEdgeData& edge) {
           return std::memcmp(&edge, &none, sizeof none) != 0;
         });
}

}  // namespace berth::sim
