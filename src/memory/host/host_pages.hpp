// SPDX-License-Identifier: Apache-2.0
// Host pages that are to be pinned: mapped, bound to a NUMA node, and touched by several threads,
// so that they are present when they are pinned. Does not use a driver.
#pragma once

#include <cstddef>
#include <optional>

namespace berth {

/// Fresh pages for `bytes`, huge ones where the system is willing; null where it refuses, or where
/// they could not all be touched (host_room_bytes()).
[[nodiscard]] void* map_host_pages(std::size_t bytes) noexcept;
/// Gives back what map_host_pages(bytes) gave.
void unmap_host_pages(void* pages, std::size_t bytes) noexcept;

/// Has pages that are not touched yet come from `node` as long as it has some, and from others
/// then. False where the system refuses, as in many containers: the pages come from anywhere.
bool prefer_node(void* pages, std::size_t bytes, int node) noexcept;
/// The machine's node where it has one only; nullopt where it has several, or does not say.
[[nodiscard]] std::optional<int> only_host_node() noexcept;

/// Touches every page on the calling thread and up to `threads` - 1 more, 4 MiB at a time. What
/// takes a huge page too long to find is touched in small ones, for the rest of the call.
/// Blocking  Until all is touched, at 1 to 20 GB/s.
/// Errors    False: the system has no pages left. The range may be touched in part.
[[nodiscard]] bool prefault(void* pages, std::size_t bytes, unsigned threads) noexcept;

}  // namespace berth
