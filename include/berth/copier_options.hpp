// SPDX-License-Identifier: Apache-2.0
// Options of a Copier: sizes, threads, and staging memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "berth/cpp20.hpp"

namespace berth {

/// How a copy of pageable memory is made if all staging slots of its device are in use.
enum class StagingShortage : std::uint8_t {
  /// It uses the slots of an earlier copy of its stream when that one is over; the caller does not
  /// wait. The first copy of a stream gets up to two additional slots, as long as fewer than four
  /// times `staging_slots` are in use; after that, the driver copies.
  share,
  grow,       ///< more memory is pinned, and returned when the copy is over
  fall_back,  ///< the driver copies: slower, and the call may wait for the copy's stream
};

/// Whether streams wait for the host behind gates (cuStreamWaitValue32), so that the call submits a
/// copy of pageable memory completely. Without gates the driver copies: slower, and the caller
/// waits. docs/staging.md describes the case in which a gate is known to hang a program.
enum class CopyGates : std::uint8_t {
  /// As `on`, but off for a device if its attributes deny memory operations, if
  /// CUDA_LAUNCH_BLOCKING is set, or once three copies to the device in a row have shown that the
  /// call that submits a gate returns only when the gate is open. These copies take 10, 20 and 40
  /// ms longer.
  automatic,
  on,   ///< if the driver has them
  off,  ///< faster under tools that complete each call before the next begins
};

struct CopierOptions {
  /// Size of one slot of a device's staging memory, through which pageable memory is copied. 64 KiB
  /// to 1 GiB, a multiple of 4 KiB. A slot of 4 MiB takes 75 us at 55 GB/s; an urgent copy in the
  /// same direction can run between two slots.
  std::size_t staging_slot_bytes = std::size_t{4} << 20;
  /// Slots of one device, 2 to 65,536. One copy gets half of them at most, and a load of a file a
  /// third. Copies smaller than a slot take memory of their own size, in total as many bytes again
  /// at most.
  std::size_t staging_slots = 16;
  /// What a copy does if all slots of its device are in use.
  StagingShortage staging_on_shortage = StagingShortage::share;
  /// Threads that copy between staging memory and other host memory, 1 to 64. Started by the first
  /// copy that needs them. nullopt: one for every two processors that the process may use,
  /// including quotas of control groups, at most 6.
  std::optional<std::size_t> workers = std::nullopt;
  /// Threads that copy between staging memory and files, 1 to 64. Also started by the first copy
  /// that needs them. They wait for the disk: 8 threads keep 4 MiB of reads pending, enough for 14
  /// GB/s at a latency of 0.3 ms.
  std::size_t file_workers = 8;
  /// Whether streams wait for the host's part of a copy, so that the caller need not.
  CopyGates gates = CopyGates::automatic;
  /// Direct copies over a link are split into pieces of this size, so that other copies can run in
  /// between. 64 KiB or more, a multiple of 4 KiB.
  std::size_t direct_piece_bytes = std::size_t{8} << 20;
  /// Ranges of a batch of this size or more go to the driver together (cuMemcpyBatchAsync) if it
  /// accepts that, and smaller ones one by one. 0: all together. nullopt: all one by one. `berth
  /// tune` measures the fastest value.
  std::optional<std::size_t> batched_range_bytes_min = 0;
  /// In a batch, pinned targets of up to this size whose sources are one range of the device are
  /// packed: the device copies them in one piece, and the host distributes them. 0: none. The
  /// default is the amount that one thread copies in 500 ns, the fixed cost of one copy of a batch
  /// on an H100. Source: vllm-project/vllm, pull request 42212.
  std::size_t packed_range_bytes_max = std::size_t{7} << 10;
};

}  // namespace berth
