// SPDX-License-Identifier: Apache-2.0
#include "pool/device_pool.hpp"

#include <algorithm>
#include <bit>
#include <memory>

#include "berth/bytes.hpp"

#include "base/check.hpp"
#include "base/counted.hpp"
#include "base/format.hpp"
#include "memory/source/arena_segments.hpp"
#include "memory/source/mapped_segments.hpp"
#include "memory/source/physical_memory.hpp"
#include "memory/source/whole_segments.hpp"
#include "stream/capture.hpp"

namespace berth {
namespace {

/// Sizes and numbers of granules are kept in 32 bits.
constexpr std::size_t kGranuleBytesMax = 2_GiB;

std::size_t granule_bytes(const DeviceContext& context, const DeviceAllocatorOptions& options,
                          std::size_t device_bytes) {
  const std::size_t minimum = minimum_granule_bytes(context);
  const std::size_t asked = options.granule_bytes;
  if (asked == 0) return minimum;
  const std::size_t maximum =
      std::max(minimum, std::min(kGranuleBytesMax, std::bit_floor(device_bytes)));
  if (!std::has_single_bit(asked) || asked < minimum || asked > maximum) {
    throw InvalidArgument(format_text(
        "DeviceAllocatorOptions::granule_bytes is {}; accepted: 0 or a power of two from "
        "{}, the least that {} maps, to {}",
        asked, minimum, context.device().to_string(), maximum));
  }
  return asked;
}

void require_fabric(const DevicePool::Setup& setup, const MemoryPoolOptions& options) {
  if (!options.contiguous) {
    throw InvalidArgument(
        format_text("pool \"{}\" has MemoryPoolOptions::fabric without contiguous; accepted: both",
                    options.name));
  }
  if (setup.device.virtual_memory && supports_fabric(setup.context)) return;
  throw NotSupported(format_text(
      "pool \"{}\" cannot have fabric handles: {}", options.name,
      setup.device.virtual_memory ? setup.context.device().to_string() +
                                        " has no CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED"
                                  : "DeviceAllocatorOptions::virtual_memory is off"));
}

struct Source {
  std::unique_ptr<SegmentSource> segments;
  const MappedSegments* mapped = nullptr;  ///< the same, if it is one
  bool is_contiguous = true;
};

Source make_source(const DevicePool::Setup& setup, const MemoryPoolOptions& options,
                   std::size_t device_bytes, BlockHeap& heap) {
  DeviceContext& context = setup.context;
  const std::size_t segment_bytes = setup.device.segment_bytes;
  const MappingNotices notices(context, setup.device.on_map, setup.device.on_unmap);
  if (options.fabric) require_fabric(setup, options);
  if (!setup.device.virtual_memory || !supports_virtual_memory(context)) {
    return {.segments =
                std::make_unique<DeviceSegments>(context, segment_bytes, device_bytes, notices)};
  }
  if (options.contiguous) {
    auto segments =
        std::make_unique<MappedSegments>(context, shareable_properties(context, options.fabric),
                                         segment_bytes, device_bytes, notices);
    const MappedSegments* const mapped = segments.get();
    return {.segments = std::move(segments), .mapped = mapped};
  }
  const auto keeping = options.for_graphs ? ArenaSegments::WindowRetention::kept
                                          : ArenaSegments::WindowRetention::bounded;
  return {.segments = std::make_unique<ArenaSegments>(
              context, heap, granule_bytes(context, setup.device, device_bytes), device_bytes,
              keeping, notices),
          .is_contiguous = false};
}

CachingAllocator::Options allocator_options(const DevicePool::Setup& setup,
                                            const MemoryPoolOptions& options,
                                            std::size_t device_bytes, MemoryBudget& budget,
                                            CachingAllocator::ReclaimFromPeers others) {
  const std::string device = setup.context.device().to_string();
  return {.name = options.name.empty() ? device : device + "/" + options.name,
          .budget = budget,
          .headroom_bytes = setup.device.headroom_bytes.bytes(device_bytes),
          .cross_stream_reuse = setup.device.cross_stream_reuse,
          .keeps_memory = options.for_graphs,
          .others = std::move(others),
          .on_pressure = setup.on_pressure,
          .events = [&events = setup.events](DeviceContext&) -> EventPool& { return events; }};
}

std::size_t bytes_or_no_limit(const std::optional<MemoryAmount>& amount, std::size_t device_bytes) {
  return amount ? amount->bytes(device_bytes) : MemoryBudget::kNoLimit;
}

}  // namespace

std::size_t total_bytes(const DeviceContext& context) {
  std::size_t bytes = 0;
  context.driver().device_total_mem(&bytes, context.native());
  return bytes;
}

MemoryBudget::Limits in_bytes(const MemoryLimits& limits, std::size_t device_bytes) {
  return {.max = bytes_or_no_limit(limits.bytes_reserved_max, device_bytes),
          .soft_max = bytes_or_no_limit(limits.bytes_reserved_soft_max, device_bytes)};
}

DevicePool::DevicePool(const Setup& setup, const MemoryPoolOptions& options)
    : context_(setup.context),
      kept_for_(options.for_graphs ? nullptr : &setup.context),
      own_name_(options.name),
      device_bytes_(total_bytes(setup.context)),
      budget_(in_bytes(options.limits, device_bytes_), &setup.device_budget),
      allocator_(setup.context.driver(),
                 allocator_options(setup, options, device_bytes_, budget_,
                                   [this, others = setup.others](std::size_t bytes,
                                                                 CachingAllocator::HostWait wait) {
                                     return others(*this, bytes, wait);
                                   }),
                 [&](BlockHeap& heap) {
                   Source source = make_source(setup, options, device_bytes_, heap);
                   mapped_ = source.mapped;
                   is_contiguous_ = source.is_contiguous;
                   return std::move(source.segments);
                 }) {
  // An observer of its own, because a pool leaves the list of pools before it is destroyed.
  context_.add_observer(allocator_);
  try {
    context_.peer_access().add(*this);
  } catch (...) {
    context_.remove_observer(allocator_);
    throw;
  }
}

DevicePool::~DevicePool() {
  if (!allocator_.is_usable()) return;
  context_.remove_observer(allocator_);
  context_.peer_access().remove(*this);
  report_live_blocks();
}

void DevicePool::set_limits(const MemoryLimits& limits) {
  allocator_.require_origin();
  budget_.set_limits(in_bytes(limits, device_bytes_));
}

std::optional<MemoryProperties> DevicePool::properties(const void* data) {
  const auto live = allocator_.find_live(data);
  if (!live) return std::nullopt;
  if (mapped_ == nullptr) return MemoryProperties{.is_contiguous = is_contiguous_};
  const auto segment = mapped_->segment_of(reinterpret_cast<std::uintptr_t>(live->data));
  BERTH_CHECK(segment.has_value());  // it has a live block
  const std::size_t offset = reinterpret_cast<std::uintptr_t>(live->data) - segment->address;
  BERTH_CHECK(offset < segment->bytes && live->bytes_requested <= segment->bytes - offset);
  return MemoryProperties{.is_contiguous = true,
                          .is_exportable = mapped_->is_exportable(),
                          .is_fabric_exportable = mapped_->is_fabric_exportable(),
                          .is_rdma_capable = mapped_->is_rdma_capable(),
                          .segment = reinterpret_cast<void*>(segment->address),
                          .segment_bytes = segment->bytes};
}

Descriptor DevicePool::export_segment(const MemoryProperties& block) const {
  BERTH_CHECK(mapped_ != nullptr);
  return mapped_->export_segment(reinterpret_cast<std::uintptr_t>(block.segment));
}

void* DevicePool::allocate_slow(std::size_t bytes, StreamRef stream) {
  require_stream_of_device(stream);
  if (kept_for_ != nullptr) return allocator_.allocate_slow(bytes, stream);
  static_cast<void>(is_capturing(stream));
  return allocator_.allocate(bytes, stream);
}

void DevicePool::refuse_stream(StreamRef stream) const {
  throw InvalidArgument(
      format_text("a stream of {} cannot order memory of {}; accepted: streams of the same device "
                  "and Runtime",
                  stream.context().name_beside(context_), context_.device().to_string()));
}

void DevicePool::report_live_blocks() const noexcept {
  const MemoryCounters counters = allocator_.counters();
  const std::uint64_t live = counters.blocks_allocated.current;
  if (live == 0) return;
  context_.driver().report(Severity::warning, [&] {
    return format_text("{}: {} of {} {} still live when the allocator was destroyed",
                       allocator_.name(), counted(live, "allocation"),
                       format_bytes(counters.bytes_requested.current), were(live));
  });
}

}  // namespace berth
