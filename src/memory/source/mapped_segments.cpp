// SPDX-License-Identifier: Apache-2.0
#include "memory/source/mapped_segments.hpp"

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

bool MappedSegments::create(Growth& growth) {
  const Driver& driver = context_.driver();
  const ContextScope scope(context_);
  make_host_progress(context_);
  CUmemGenericAllocationHandle handle = 0;
  const CUresult created = driver.try_mem_create(&handle, growth.bytes, &properties_, 0ULL);
  if (!driver.succeeded(DriverCall::mem_create, created, CUDA_ERROR_OUT_OF_MEMORY)) return false;
  bool mapped = false;
  try {
    mapped = map(growth, handle);
  } catch (...) {
    driver.mem_release_or_report(handle);
    throw;
  }
  if (!mapped) {
    driver.mem_release_or_report(handle);
    return false;
  }
  const CUresult allowed = driver.try_mem_set_access(CUdeviceptr{growth.address}, growth.bytes,
                                                     access_.data(), access_.size());
  if (allowed != CUDA_SUCCESS) {
    destroy_or_keep({.address = growth.address, .bytes = growth.bytes, .is_usable = false});
  }
  return driver.succeeded(DriverCall::mem_set_access, allowed, CUDA_ERROR_OUT_OF_MEMORY);
}

bool MappedSegments::map(Growth& growth, CUmemGenericAllocationHandle handle) {
  growth.address = map_without_access(context_, handle, growth.bytes);
  if (growth.address == 0) return false;
  try {
    const MutexLock lock(mutex_);
    const bool is_new = segments_.try_emplace(growth.address, Mapped{handle, growth.bytes}).second;
    BERTH_CHECK(is_new);
  } catch (...) {
    unmap_alone(context_, growth.address, growth.bytes);
    throw;
  }
  return true;
}

DriverRefusal MappedSegments::destroy(std::uintptr_t address) noexcept {
  std::map<std::uintptr_t, Mapped>::node_type segment;
  {
    const MutexLock lock(mutex_);
    segment = segments_.extract(address);
  }
  BERTH_CHECK(!segment.empty());
  const auto [handle, bytes] = segment.mapped();
  const DriverRefusal refusal = unmap_and_release(context_, handle, address, bytes, access_);
  if (!refusal) return {};
  const MutexLock lock(mutex_);
  segments_.insert(std::move(segment));
  return refusal;
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
