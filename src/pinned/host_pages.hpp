// SPDX-License-Identifier: Apache-2.0
// Host pages that will be pinned: mapped, bound to a NUMA node, and touched by several threads, so
// that they are resident when they are pinned. Makes no driver call.
#pragma once

#include <cstddef>
#include <optional>

namespace berth {

/// Maps pages for `bytes`, huge ones if possible. Null if the system refuses, or if not all pages
/// could be touched (host_room_bytes()).
[[nodiscard]] void* map_host_pages(std::size_t bytes) noexcept;
/// Unmaps pages of map_host_pages(bytes).
void unmap_host_pages(void* pages, std::size_t bytes) noexcept;

/// Untouched pages will come from `node`, or from other nodes if it has none left. False if the
/// system refuses, as in many containers.
bool prefer_node(void* pages, std::size_t bytes, int node) noexcept;
/// The machine's node if it has only one; nullopt if it has several, or if that is unknown.
[[nodiscard]] std::optional<int> only_host_node() noexcept;

/// Touches every page on the calling thread and up to `threads` - 1 more, 4 MiB at a time. If huge
/// pages take too long to find, small pages are touched for the rest of the call.
/// Blocking  Until all pages are touched, at 1 to 20 GB/s.
/// Errors    False: the system has no pages left. The range may be touched in part.
[[nodiscard]] bool prefault(void* pages, std::size_t bytes, unsigned threads) noexcept;

}  // namespace berth
