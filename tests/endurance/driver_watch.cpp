// SPDX-License-Identifier: Apache-2.0
#include "endurance/driver_watch.hpp"

#include <cstring>
#include <thread>

#include "endurance/failure.hpp"
#include "sim/functions.hpp"

namespace berth::endurance {
namespace {

// Not every time: on a busy machine the processor does not come back for milliseconds.
void let_others_in() {
  thread_local unsigned calls = 0;
  if (++calls % 64 == 0) std::this_thread::yield();
}

}  // namespace

DriverWatch::DriverWatch(std::size_t device_bytes) : claims_(pages_, device_bytes / kPageBytes) {
  require(current_ == nullptr, "two watches at once");
  for (std::size_t frame = device_bytes / kPageBytes; frame > 0; --frame)
    spare_.push_back(static_cast<Frame>(frame));
  current_ = this;
}

bool DriverWatch::nothing_held() const {
  const std::lock_guard lock(mutex_);
  return physical_.empty() && mappings_.empty();
}

DriverSource DriverWatch::source() {
  const auto resolve = [](const char* symbol, int) -> void* {
    const auto is = [symbol](const char* name) { return std::strcmp(symbol, name) == 0; };
    if (is("cuMemCreate")) return reinterpret_cast<void*>(&create);
    if (is("cuMemRelease")) return reinterpret_cast<void*>(&release);
    if (is("cuMemMap")) return reinterpret_cast<void*>(&map);
    if (is("cuMemUnmap")) return reinterpret_cast<void*>(&unmap);
    if (is("cuMemAlloc")) return reinterpret_cast<void*>(&alloc);
    if (is("cuMemFree")) return reinterpret_cast<void*>(&free);
    if (is("cuStreamQuery")) return reinterpret_cast<void*>(&query_stream);
    if (is("cuEventQuery")) return reinterpret_cast<void*>(&query_event);
    return sim::resolve(symbol);
  };
  return {.name = "sim", .resolve = resolve, .problem = {}, .library = {}};
}

CUresult DriverWatch::create(Handle* handle, std::size_t bytes,
                             const CUmemAllocationProp* properties, unsigned long long flags) {
  const CUresult result = sim::berth_sim_cuMemCreate(handle, bytes, properties, flags);
  if (result == CUDA_SUCCESS) current_->note_create(*handle, bytes);
  return result;
}

// What goes is noted before the call: while it is under way the driver may give it to others.
CUresult DriverWatch::release(Handle handle) {
  current_->let_go(handle);
  return sim::berth_sim_cuMemRelease(handle);
}

CUresult DriverWatch::map(CUdeviceptr address, std::size_t bytes, std::size_t offset, Handle handle,
                          unsigned long long flags) {
  const CUresult result = sim::berth_sim_cuMemMap(address, bytes, offset, handle, flags);
  if (result == CUDA_SUCCESS) current_->note_map(address, handle, bytes);
  return result;
}

CUresult DriverWatch::unmap(CUdeviceptr address, std::size_t bytes) {
  for (std::size_t done = 0; done < bytes;) {
    const std::size_t step = current_->note_unmap(address + done);
    require(step > 0, "memory was unmapped that is not mapped");
    done += step;
  }
  return sim::berth_sim_cuMemUnmap(address, bytes);
}

CUresult DriverWatch::alloc(CUdeviceptr* address, std::size_t bytes) {
  const CUresult result = sim::berth_sim_cuMemAlloc(address, bytes);
  if (result != CUDA_SUCCESS) return result;
  current_->note_create(*address, bytes);
  current_->note_map(*address, *address, bytes);
  return result;
}

CUresult DriverWatch::free(CUdeviceptr address) {
  require(current_->note_unmap(address) > 0, "memory was freed that the driver did not give");
  current_->let_go(address);
  return sim::berth_sim_cuMemFree(address);
}

CUresult DriverWatch::query_stream(CUstream stream) {
  const CUresult result = sim::berth_sim_cuStreamQuery(stream);
  let_others_in();
  return result;
}

CUresult DriverWatch::query_event(CUevent event) {
  const CUresult result = sim::berth_sim_cuEventQuery(event);
  let_others_in();
  return result;
}

void DriverWatch::note_create(Handle handle, std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  require(bytes % kPageBytes == 0, "memory that is no multiple of a page");
  Physical physical{{}, 1};
  for (std::size_t page = 0; page < bytes / kPageBytes; ++page) {
    require(!spare_.empty(), "more memory than the device has");
    physical.frames.push_back(spare_.back());
    spare_.pop_back();
  }
  require(physical_.emplace(handle, std::move(physical)).second, "a handle that is there already");
}

void DriverWatch::note_map(std::uintptr_t address, Handle handle, std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  Physical& physical = physical_.at(handle);
  ++physical.uses;
  mappings_[address] = {handle, bytes};
  for (std::size_t page = 0; page < bytes / kPageBytes; ++page) {
    const std::uintptr_t at = address + page * kPageBytes;
    require(pages_.find(at) == kNoFrame, "memory was mapped where some is mapped already");
    pages_.set(at, physical.frames.at(page));
  }
}

std::size_t DriverWatch::note_unmap(std::uintptr_t address) {
  Mapping mapping{};
  {
    const std::lock_guard lock(mutex_);
    const auto found = mappings_.find(address);
    if (found == mappings_.end()) return 0;
    mapping = found->second;
    mappings_.erase(found);
    for (std::size_t page = 0; page < mapping.bytes / kPageBytes; ++page)
      pages_.set(address + page * kPageBytes, kNoFrame);
  }
  let_go(mapping.handle);
  return mapping.bytes;
}

void DriverWatch::let_go(Handle handle) {
  const std::lock_guard lock(mutex_);
  const auto found = physical_.find(handle);
  require(found != physical_.end(), "a handle was released that is none");
  if (--found->second.uses > 0) return;
  for (const Frame frame : found->second.frames) {
    require(claims_.none(frame), "memory went back to the driver under a live block");
    spare_.push_back(frame);
  }
  physical_.erase(found);
}

}  // namespace berth::endurance
