// SPDX-License-Identifier: Apache-2.0
#include "berth/copier.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <vector>

#include <fmt/format.h>

#include "berth/bytes.hpp"
#include "berth/device_registry.hpp"
#include "berth/pinned_allocator.hpp"

#include "base/fork.hpp"
#include "base/mutex.hpp"
#include "copy/memory_kind.hpp"
#include "copy/staging_ring.hpp"
#include "device/device_context.hpp"
#include "stream/capture.hpp"
#include "stream/settle.hpp"
#include "stream/unasked.hpp"

namespace berth {
namespace {

using Type = MemoryKind::Type;

void check(const CopierOptions& options) {
  if (options.staging_slot_bytes < 64_KiB || options.staging_slot_bytes % 4_KiB != 0) {
    throw InvalidArgument(fmt::format(
        "CopierOptions::staging_slot_bytes is {}; accepted: 64 KiB or more, a multiple of 4 KiB",
        options.staging_slot_bytes));
  }
  if (options.staging_slots < 2) {
    throw InvalidArgument(fmt::format("CopierOptions::staging_slots is {}; accepted: 2 or more",
                                      options.staging_slots));
  }
}

void check_range(const void* data, std::size_t bytes, const char* side) {
  const auto address = reinterpret_cast<std::uintptr_t>(data);
  if (data == nullptr || address + bytes < address) {
    throw InvalidArgument(fmt::format(
        "the {} of a copy is {} with {} B; accepted: an address that is not null, and a range that "
        "does not wrap around",
        side, data, bytes));
  }
}

void check_ranges(const void* target, const void* source, std::size_t bytes) {
  check_range(target, bytes, "target");
  check_range(source, bytes, "source");
  const auto to = reinterpret_cast<std::uintptr_t>(target);
  const auto from = reinterpret_cast<std::uintptr_t>(source);
  if (std::max(to, from) - std::min(to, from) < bytes) {
    throw InvalidArgument(fmt::format(
        "target {} and source {} of a copy of {} B overlap; accepted: ranges that do not", target,
        source, bytes));
  }
}

/// A host function: the second half of a copy from a device to pageable memory.
void CUDA_CB drain_slot(void* argument) {
  const auto& slot = *static_cast<const StagingRing::Slot*>(argument);
  std::memcpy(slot.drain_target, slot.memory.data(), slot.drain_bytes);
}

}  // namespace

class Copier::Impl {
 public:
  Impl(const DeviceRegistry& registry, PinnedAllocator& pinned, CopierOptions options)
      : registry_(registry),
        pinned_(pinned),
        options_(options),
        rings_(static_cast<std::size_t>(registry.count())) {}

  void copy(std::byte* target, const std::byte* source, std::size_t bytes, StreamRef stream) {
    const Driver& driver = stream.context().driver();
    const ContextScope scope(stream.context());
    const MemoryKind to = find_memory_kind(registry_, pinned_, driver, target);
    const MemoryKind from = find_memory_kind(registry_, pinned_, driver, source);
    if (to.is_host() && from.is_host()) {
      require_uncaptured(stream);
      return copy_host(target, source, bytes);
    }
    require_stream_of(to, from, stream);
    if (from.type == Type::pageable || to.type == Type::pageable) require_uncaptured(stream);
    bytes_copied_ += bytes;
    if (from.type == Type::pageable) return stage_in(target, source, bytes, stream);
    if (to.type == Type::pageable) return stage_out(target, source, bytes, stream);
    copy_direct(target, to, source, from, bytes, stream);
  }

  void copy_on_host(std::byte* target, const std::byte* source, std::size_t bytes) {
    require_host(target);
    require_host(source);
    copy_host(target, source, bytes);
  }

  void fill(void* target, std::uint8_t value, std::size_t bytes, StreamRef stream) {
    const Driver& driver = stream.context().driver();
    const ContextScope scope(stream.context());
    const MemoryKind kind = find_memory_kind(registry_, pinned_, driver, target);
    if (kind.device != &stream.context()) {
      throw InvalidArgument(
          fmt::format("cannot fill {} on a stream of {}; accepted: memory of that device", target,
                      stream.device().to_string()));
    }
    driver.memset_d8_async(reinterpret_cast<CUdeviceptr>(target), value, bytes, stream.native());
  }

  [[nodiscard]] CopyCounters counters() const {
    return {copies_direct_, copies_staged_, copies_host_, bytes_copied_, staging_waits_};
  }

 private:
  static void require_stream_of(const MemoryKind& to, const MemoryKind& from, StreamRef stream) {
    const DeviceContext* device = &stream.context();
    if (to.device == device || from.device == device) return;
    const DeviceContext* other = to.device != nullptr ? to.device : from.device;
    throw InvalidArgument(fmt::format(
        "a stream of {} cannot copy memory of {}; accepted: a stream of a device on either side",
        stream.device().to_string(), other->device().to_string()));
  }

  /// For what the host does itself: a graph would not do it again, and slots serve others by then.
  static void require_uncaptured(StreamRef stream) {
    if (is_capturing_in_scope(stream)) refuse_captured(stream, "given a copy by the host");
  }

  void copy_host(std::byte* target, const std::byte* source, std::size_t bytes) {
    ++copies_host_;
    bytes_copied_ += bytes;
    std::memcpy(target, source, bytes);
  }

  /// Without a context there is no device memory yet, and looking should not make one.
  void require_host(const void* data) const {
    if (!origin_.is_here()) return;
    for (int ordinal = 0; ordinal < registry_.count(); ++ordinal) {
      DeviceContext& context = registry_.context(Device::cuda(ordinal));
      if (!context.is_used()) continue;
      const ContextScope scope(context);
      const MemoryKind kind = find_memory_kind(registry_, pinned_, context.driver(), data);
      if (kind.is_host()) return;
      throw InvalidArgument(
          fmt::format("{} is memory of {}; accepted without a stream: host memory", data,
                      kind.device->device().to_string()));
    }
  }

  void copy_direct(void* target, const MemoryKind& to, const void* source, const MemoryKind& from,
                   std::size_t bytes, StreamRef stream) {
    const Driver& driver = stream.context().driver();
    const auto destination = reinterpret_cast<CUdeviceptr>(target);
    const auto origin = reinterpret_cast<CUdeviceptr>(source);
    // Recorded first: a block freed by another thread right after the submission must wait for it.
    for (void* block : {to.pinned_block, from.pinned_block}) {
      if (block != nullptr) pinned_.record_stream(block, stream);
    }
    ++copies_direct_;
    if (to.device != nullptr && from.device != nullptr && to.device != from.device) {
      driver.memcpy_peer_async(destination, to.device->primary(), origin, from.device->primary(),
                               bytes, stream.native());
    } else {
      driver.memcpy_async(destination, origin, bytes, stream.native());
    }
  }

  void stage_in(std::byte* target, const std::byte* source, std::size_t bytes, StreamRef stream) {
    for_each_chunk(bytes, stream, [&](StagingSlot& slot, std::size_t offset, std::size_t chunk) {
      std::memcpy(slot.data(), source + offset, chunk);
      stream.context().driver().memcpy_async(reinterpret_cast<CUdeviceptr>(target + offset),
                                             reinterpret_cast<CUdeviceptr>(slot.data()), chunk,
                                             stream.native());
    });
  }

  void stage_out(std::byte* target, const std::byte* source, std::size_t bytes, StreamRef stream) {
    const Driver& driver = stream.context().driver();
    const auto submit = [&](StagingSlot& slot, std::size_t offset, std::size_t chunk) {
      driver.memcpy_async(reinterpret_cast<CUdeviceptr>(slot.data()),
                          reinterpret_cast<CUdeviceptr>(source + offset), chunk, stream.native());
      slot.slot().drain_target = target + offset;
      slot.slot().drain_bytes = chunk;
      driver.launch_host_func(stream.native(), &drain_slot, static_cast<void*>(&slot.slot()));
    };
    try {
      for_each_chunk(bytes, stream, submit);
    } catch (...) {
      settle(stream);  // the caller may free the target of the chunks before
      throw;
    }
  }

  template <class CopyChunk>
  void for_each_chunk(std::size_t bytes, StreamRef stream, const CopyChunk& copy_chunk) {
    StagingRing& staging = ring(stream.context());
    ++copies_staged_;
    for (std::size_t offset = 0; offset < bytes; offset += staging.slot_bytes()) {
      StagingSlot slot(staging, stream);
      if (slot.waited()) ++staging_waits_;
      copy_chunk(slot, offset, std::min(staging.slot_bytes(), bytes - offset));
    }
  }

  StagingRing& ring(DeviceContext& context) {
    const MutexLock lock(mutex_);
    auto& ring = rings_[static_cast<std::size_t>(context.device().ordinal())];
    if (ring == nullptr) {
      ring = std::make_unique<StagingRing>(context, pinned_, options_.staging_slot_bytes,
                                           options_.staging_slots);
    }
    return *ring;
  }

  const ForkOrigin origin_;
  const DeviceRegistry& registry_;
  PinnedAllocator& pinned_;
  const CopierOptions options_;

  Mutex mutex_;
  std::vector<std::unique_ptr<StagingRing>> rings_ BERTH_GUARDED_BY(mutex_);  ///< by ordinal

  std::atomic<std::uint64_t> copies_direct_ = 0;
  std::atomic<std::uint64_t> copies_staged_ = 0;
  std::atomic<std::uint64_t> copies_host_ = 0;
  std::atomic<std::uint64_t> bytes_copied_ = 0;
  std::atomic<std::uint64_t> staging_waits_ = 0;
};

Copier::Copier(const DeviceRegistry& registry, PinnedAllocator& pinned, CopierOptions options) {
  check(options);
  impl_ = std::make_unique<Impl>(registry, pinned, options);
}

Copier::~Copier() = default;

void Copier::copy_async(void* target, const void* source, std::size_t bytes, StreamRef stream) {
  if (bytes == 0) return;
  check_ranges(target, source, bytes);
  impl_->copy(static_cast<std::byte*>(target), static_cast<const std::byte*>(source), bytes,
              stream);
}

void Copier::copy(void* target, const void* source, std::size_t bytes, StreamRef stream) {
  if (is_capturing(stream)) refuse_captured(stream, "waited for");
  copy_async(target, source, bytes, stream);
  try {
    sync_unasked(stream);
  } catch (...) {
    settle(stream);
    throw;
  }
}

void Copier::copy(void* target, const void* source, std::size_t bytes) {
  if (bytes == 0) return;
  check_ranges(target, source, bytes);
  impl_->copy_on_host(static_cast<std::byte*>(target), static_cast<const std::byte*>(source),
                      bytes);
}

void Copier::fill_async(void* target, std::uint8_t value, std::size_t bytes, StreamRef stream) {
  if (bytes == 0) return;
  check_range(target, bytes, "target");
  impl_->fill(target, value, bytes, stream);
}

CopyCounters Copier::counters() const {
  return impl_->counters();
}

}  // namespace berth
