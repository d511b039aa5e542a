// SPDX-License-Identifier: Apache-2.0
#include "memory/source/mapped_segments.hpp"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <string>
#include <utility>

#include "berth/error.hpp"

#include "base/check.hpp"
#include "base/format.hpp"
#include "memory/source/lone_mapping.hpp"
#include "memory/source/physical_memory.hpp"
#include "stream/wait.hpp"

namespace berth {

MappedSegments::MappedSegments(DeviceContext& context, const CUmemAllocationProp& properties,
                               std::size_t segment_bytes, std::size_t device_bytes,
                               const MappingNotices& notices)
    : WholeSegments(segment_bytes, minimum_granule_bytes(context, properties), device_bytes,
                    notices),
      context_(context),
      properties_(properties),
      access_{access_by(context)} {}

MappedSegments::Mapped MappedSegments::create_memory(std::size_t bytes) {
  {
    const MutexLock lock(mutex_);
    const auto kept = std::ranges::find(unmapped_, bytes, &Mapped::bytes);
    if (kept != unmapped_.end()) {
      const Mapped memory = *kept;
      unmapped_.erase(kept);
      return memory;
    }
    unmapped_.reserve(segments_.size() + unmapped_.size() + 1);  // release_or_keep() must not fail
  }
  const Driver& driver = context_.driver();
  Mapped memory{0, bytes};
  const CUresult created = driver.try_mem_create(&memory.handle, bytes, &properties_, 0ULL);
  return driver.succeeded(DriverCall::mem_create, created, CUDA_ERROR_OUT_OF_MEMORY) ? memory
                                                                                     : Mapped{};
}

bool MappedSegments::create(Growth& growth) {
  const Driver& driver = context_.driver();
  const ContextScope scope(context_);
  make_host_progress(context_);
  Segments prepared;
  prepared.try_emplace(0);  // the record of a mapped segment must not be lost
  const Mapped memory = create_memory(growth.bytes);
  if (memory.bytes == 0) return false;
  try {
    growth.address = map_without_access(context_, memory.handle, growth.bytes);
  } catch (...) {
    release_or_keep(memory);
    throw;
  }
  if (growth.address == 0) {
    release_or_keep(memory);
    return false;
  }
  {
    Segments::node_type segment = prepared.extract(prepared.begin());
    segment.key() = growth.address;
    segment.mapped() = memory;
    const MutexLock lock(mutex_);
    const bool is_new = segments_.insert(std::move(segment)).inserted;
    BERTH_CHECK(is_new);
  }
  const CUresult allowed = driver.try_mem_set_access(CUdeviceptr{growth.address}, growth.bytes,
                                                     access_.data(), access_.size());
  if (allowed != CUDA_SUCCESS) {
    destroy_or_keep({.address = growth.address, .bytes = growth.bytes, .is_usable = false});
  }
  return driver.succeeded(DriverCall::mem_set_access, allowed, CUDA_ERROR_OUT_OF_MEMORY);
}

DriverRefusal MappedSegments::destroy(WholeSegments::Segment& segment) noexcept {
  Segments::node_type record;
  {
    const MutexLock lock(mutex_);
    record = segments_.extract(segment.address);
  }
  BERTH_CHECK(!record.empty());
  const Mapped memory = record.mapped();
  const Driver& driver = context_.driver();
  const ContextScope scope(context_, std::nothrow);
  make_host_progress(context_);
  const auto [refusal, remains] =
      unmap_and_release(driver, memory.handle, segment.address, memory.bytes, access_);
  if (remains == Remains::mapping) segment.is_usable = false;
  if (remains == Remains::mapping || remains == Remains::memory) {
    const MutexLock lock(mutex_);
    segments_.insert(std::move(record));
    return refusal;
  }
  segment.bytes = 0;
  driver.mem_address_free_or_report(CUdeviceptr{segment.address}, memory.bytes);
  if (remains == Remains::handle) keep_unmapped(memory);
  return refusal;
}

DriverRefusal MappedSegments::release_or_keep(const Mapped& unmapped) noexcept {
  const ContextScope scope(context_, std::nothrow);
  const DriverRefusal refusal = release(context_.driver(), unmapped.handle).refusal;
  if (refusal) keep_unmapped(unmapped);
  return refusal;
}

void MappedSegments::keep_unmapped(const Mapped& unmapped) noexcept {
  const MutexLock lock(mutex_);
  BERTH_CHECK(unmapped_.size() < unmapped_.capacity());
  unmapped_.push_back(unmapped);
}

std::size_t MappedSegments::refused_bytes() const {
  std::size_t bytes = WholeSegments::refused_bytes();
  const MutexLock lock(mutex_);
  for (const Mapped& unmapped : unmapped_) bytes += unmapped.bytes;
  return bytes;
}

DriverRefusal MappedSegments::retry_refused() noexcept {
  const DriverRefusal mapped = WholeSegments::retry_refused();
  const DriverRefusal unmapped = retry_unmapped();
  return unmapped ? unmapped : mapped;
}

void MappedSegments::give_back_all(const BlockHeap& heap) noexcept {
  retry_unmapped();
  WholeSegments::give_back_all(heap);
}

DriverRefusal MappedSegments::retry_unmapped() noexcept {
  DriverRefusal last;
  for (std::size_t left = unmapped_count(); left > 0; --left) {
    if (const DriverRefusal refusal = release_or_keep(take_unmapped())) last = refusal;
  }
  return last;
}

std::size_t MappedSegments::unmapped_count() const {
  const MutexLock lock(mutex_);
  return unmapped_.size();
}

MappedSegments::Mapped MappedSegments::take_unmapped() noexcept {
  const MutexLock lock(mutex_);
  const Mapped oldest = unmapped_.front();
  unmapped_.erase(unmapped_.begin());
  return oldest;
}

void MappedSegments::grant_access(DeviceContext& user) {
  const ContextScope scope(context_);
  const CUmemAccessDesc access = access_by(user);
  if (has_access(access_, access)) return;
  access_.reserve(access_.size() + 1);
  std::vector<Segment> mapped;
  {
    const MutexLock lock(mutex_);
    for (const auto& [address, segment] : segments_) mapped.push_back({address, segment.bytes});
  }
  for (const auto& [address, bytes] : mapped) {
    context_.driver().mem_set_access(CUdeviceptr{address}, bytes, &access, std::size_t{1});
  }
  access_.push_back(access);
}

void MappedSegments::require_sleep() const {
  throw NotSupported(
      "a contiguous pool cannot sleep: other processes and network cards may refer to its physical "
      "memory; accepted: a pool without MemoryPoolOptions::contiguous");
}

std::optional<MappedSegments::Segment> MappedSegments::segment_of(std::uintptr_t address) const {
  const MutexLock lock(mutex_);
  const auto next = segments_.upper_bound(address);
  if (next == segments_.begin()) return std::nullopt;
  const auto& [start, segment] = *std::prev(next);
  if (address - start >= segment.bytes) return std::nullopt;
  return Segment{start, segment.bytes};
}

Descriptor MappedSegments::export_segment(std::uintptr_t address) const {
  if (!is_exportable()) {
    throw NotSupported(format_text(
        "memory of {} cannot be exported: the device has no "
        "CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, or the driver no "
        "cuMemExportToShareableHandle",
        context_.device().to_string()));
  }
  const ContextScope scope(context_);
  const MutexLock lock(mutex_);
  const auto segment = segments_.find(address);
  BERTH_CHECK(segment != segments_.end());
  int number = -1;
  const Driver& driver = context_.driver();
  const CUresult result = driver.try_mem_export_to_shareable_handle(
      &number, segment->second.handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0ULL);
  if (result == CUDA_SUCCESS) return Descriptor(number);
  if (const std::string shortage = descriptor_shortage(); !shortage.empty()) {
    throw Exhausted(format_text(
        "memory of {} cannot be exported: {}; {}: {}", context_.device().to_string(), shortage,
        kDriverCallNames[std::size_t(DriverCall::mem_export_to_shareable_handle)],
        driver.describe(result)));
  }
  driver.raise(DriverCall::mem_export_to_shareable_handle, result);
}

}  // namespace berth
