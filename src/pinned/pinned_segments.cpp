// SPDX-License-Identifier: Apache-2.0
// Source: CUDA Driver API, "Memory Management" (cuMemHostAlloc, cuMemHostRegister).
#include "pinned/pinned_segments.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "berth/bytes.hpp"

#include "base/check.hpp"
#include "base/format.hpp"
#include "stream/capture.hpp"
#include "stream/wait.hpp"

namespace berth {

PinnedSegments::PinnedSegments(const DeviceRegistry& registry, const Options& options)
    : WholeSegments(options.segment_bytes, 4_KiB, std::numeric_limits<std::ptrdiff_t>::max()),
      registry_(registry),
      options_(options) {}

bool PinnedSegments::create(Growth& growth) {
  DeviceContext& context = registry_.context(Device::cuda());
  const Driver& driver = context.driver();
  const ContextScope scope(context);
  const RelaxedCapture relaxed(driver);
  make_host_progress(registry_);
  std::map<std::uintptr_t, Segment> noted;  // beforehand, so that nothing can fail later
  noted.emplace(0, Segment{growth.bytes, true, &context});
  auto note = noted.extract(noted.begin());

  void* data = registers(driver, growth.bytes) ? map_and_register(driver, growth.bytes) : nullptr;
  if (data == nullptr) {
    const unsigned write_combined = options_.write_combined ? CU_MEMHOSTALLOC_WRITECOMBINED : 0;
    const CUresult result = driver.try_mem_host_alloc(
        &data, growth.bytes, unsigned{CU_MEMHOSTALLOC_PORTABLE} | write_combined);
    if (!driver.succeeded(DriverCall::mem_host_alloc, result, CUDA_ERROR_OUT_OF_MEMORY))
      return false;
    note.mapped().is_registered = false;
  }
  ++(note.mapped().is_registered ? registered_ : allocated_);
  growth.address = reinterpret_cast<std::uintptr_t>(data);
  note.key() = growth.address;
  const MutexLock lock(mutex_);
  const bool is_new = segments_.insert(std::move(note)).inserted;
  BERTH_CHECK(is_new);
  return true;
}

bool PinnedSegments::registers(const Driver& driver, std::size_t bytes) {
  if (options_.prefault_threads == 0 || options_.write_combined) return false;
  if (bytes >= kRegistrationBytesMax) return false;
  if (registering_ != Registering::unknown) return registering_ == Registering::works;
  for (int ordinal = 0; ordinal < registry_.count(); ++ordinal) {
    int same_address = 0;
    const CUresult result = driver.try_device_get_attribute(
        &same_address, CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM,
        registry_.context(Device::cuda(ordinal)).native());
    if (result != CUDA_SUCCESS) return false;  // queried again the next time
    if (same_address == 0) {
      registering_ = Registering::does_not;
      return false;
    }
  }
  registering_ = Registering::works;
  return true;
}

void* PinnedSegments::map_and_register(const Driver& driver, std::size_t bytes) {
  void* const pages = options_.map(bytes);
  if (pages == nullptr) return nullptr;
  bind(driver, pages, bytes);
  CUresult result = CUDA_ERROR_OUT_OF_MEMORY;
  if (prefault(pages, bytes, options_.prefault_threads)) {
    result = driver.try_mem_host_register(pages, bytes, unsigned{CU_MEMHOSTREGISTER_PORTABLE});
  }
  if (result == CUDA_SUCCESS) return pages;
  unmap_host_pages(pages, bytes);
  if (result == CUDA_ERROR_NOT_SUPPORTED || result == CUDA_ERROR_NOT_PERMITTED) {
    registering_ = Registering::does_not;
  }
  if (result != CUDA_ERROR_OUT_OF_MEMORY && !refusal_reported_.exchange(true)) {
    driver.report(Severity::warning, [&] {
      return format_text(
          "pinned: cuMemHostRegister rejects {} of new pages; using cuMemHostAlloc instead: {}",
          format_bytes(bytes), driver.describe(result));
    });
  }
  return nullptr;
}

void PinnedSegments::bind(const Driver& driver, void* pages, std::size_t bytes) {
  if (!options_.node || options_.node == only_host_node()) return;
  if (prefer_node(pages, bytes, *options_.node) || binding_reported_.exchange(true)) return;
  driver.report(Severity::warning, [&] {
    return format_text(
        "pinned: the system does not let memory be bound to NUMA node {}, so it comes from any "
        "node",
        *options_.node);
  });
}

DriverRefusal PinnedSegments::destroy(WholeSegments::Segment& whole) noexcept {
  std::map<std::uintptr_t, Segment>::node_type note;
  {
    // Beforehand, because another segment may get the address once the driver has the memory.
    const MutexLock lock(mutex_);
    note = segments_.extract(whole.address);
  }
  BERTH_CHECK(!note.empty());
  const Segment& segment = note.mapped();
  const Driver& driver = segment.context->driver();
  void* const pages = reinterpret_cast<void*>(whole.address);
  const ContextScope scope(*segment.context, std::nothrow);
  const RelaxedCapture relaxed(driver);
  make_host_progress(registry_);
  const DriverRefusal refusal =
      segment.is_registered
          ? driver.reported(DriverCall::mem_host_unregister, driver.try_mem_host_unregister(pages))
          : driver.reported(DriverCall::mem_free_host, driver.try_mem_free_host(pages));
  if (refusal) {
    const MutexLock lock(mutex_);
    segments_.insert(std::move(note));
    return refusal;
  }
  if (segment.is_registered) unmap_host_pages(pages, segment.bytes);
  return {};
}

std::vector<SegmentSource::Range> PinnedSegments::plan_return(BlockHeap& heap, std::size_t bytes) {
  std::vector<Block*> whole = whole_segments(heap);
  std::ranges::sort(whole, {}, [](const Block* block) {
    return std::pair(block->freed_at, std::uintptr_t{block->address});
  });
  return hold(heap, whole, bytes);
}

}  // namespace berth
