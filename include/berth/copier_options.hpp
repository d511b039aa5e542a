// SPDX-License-Identifier: Apache-2.0
// How a Copier divides its work, and what it may take for that.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "berth/cpp20.hpp"

namespace berth {

/// What becomes of a copy of pageable memory that finds all slots of its device in use.
enum class StagingShortage : std::uint8_t {
  /// It uses the slots of an earlier copy of its stream once that one is over, and the caller waits
  /// for nothing. The first copy of a stream gets up to two further slots, as long as fewer than
  /// four times `staging_slots` are in use; then the driver copies.
  share,
  grow,       ///< more is pinned, which goes back when the copy is over
  fall_back,  ///< the driver copies by its own means: slower, and it may wait for the copy's stream
};

/// Whether streams wait for the host behind gates (cuStreamWaitValue32), so that a copy of pageable
/// memory is submitted at once. Without gates the driver copies: slower, and the caller waits.
/// docs/copies.md has the cases in which gates are known to hang.
enum class CopyGates : std::uint8_t {
  /// As `on`, but not where the device's attributes deny memory operations, or launches block
  /// (CUDA_LAUNCH_BLOCKING).
  automatic,
  on,   ///< if the driver has them
  off,  ///< nowhere, as for a tool that lets one call end before the next begins
};

struct CopierOptions {
  /// Size of one slot of a device's staging memory, through which pageable memory travels: what is
  /// copied at a time. 64 KiB to 1 GiB, a multiple of 4 KiB. A slot of 4 MiB takes 75 us at 55
  /// GB/s: an urgent copy in the same direction comes in between.
  std::size_t staging_slot_bytes = std::size_t{4} << 20;
  /// Slots of one device, 2 to 65,536. One copy gets half of them at most. Copies smaller than a
  /// slot take memory of their own size, up to as many bytes again.
  std::size_t staging_slots = 16;
  StagingShortage on_staging_shortage = StagingShortage::share;
  /// Threads that copy between staging memory and the rest of the host's, 1 to 64. Started by the
  /// first copy that needs them. nullopt: one for every two processors that the process may use,
  /// quotas of control groups included, and 6 at most.
  std::optional<std::size_t> workers = std::nullopt;
  /// Threads that copy between staging memory and files, 1 to 64, likewise. They wait for the disk:
  /// 8 keep 4 MiB of reads under way, which is 14 GB/s at 0.3 ms each.
  std::size_t file_workers = 8;
  CopyGates gates = CopyGates::automatic;
  /// What is copied directly over a link is cut into pieces of this size, so that others come in
  /// between. 64 KiB or more, a multiple of 4 KiB.
  std::size_t direct_piece_bytes = std::size_t{8} << 20;
  /// Whether the ranges of a batch go to the driver together (cuMemcpyBatchAsync) if it accepts
  /// that, or one by one.
  bool batch_calls = true;
  /// In a batch, pinned targets of up to this size whose sources are one range of the device are
  /// packed: the device copies them in one piece, and the host distributes them. 0: none. The
  /// default is what one thread copies in 500 ns, which is what a copy of a batch costs an H100
  /// beside its bytes. Source: vllm-project/vllm, pull request 42212.
  std::size_t packed_range_bytes_max = std::size_t{7} << 10;
};

}  // namespace berth
