// SPDX-License-Identifier: Apache-2.0
#include "buffer/host_mapping.hpp"

#include <cstdint>
#include <exception>
#include <utility>

#include "berth/error.hpp"
#include "berth/host_mapping.hpp"

#include "base/format.hpp"

namespace berth {

HostMappingState::HostMappingState(std::shared_ptr<BufferSet> set, const RegisteredBackend& owner,
                                   std::span<std::byte> memory)
    : set_(std::move(set)), owner_(owner), memory_(memory) {
  set_->require_open();
  set_->mappings().add(*this);
  try {
    if (!owner_.backend->map_host_memory(memory_)) {
      throw NotSupported(
          format_text("{} maps no host memory for {}; accepted: transfers of memory as it is",
                      owner_.name, owner_.type.name()));
    }
  } catch (...) {
    leave([] {});  // transfers may use the memory by now
    throw;
  }
}

HostMappingState::~HostMappingState() {
  if (set_->is_here()) leave([this] { unmap(); });
}

template <class Unmap>
void HostMappingState::leave(const Unmap& unmap) noexcept {
  HostMappings& all = set_->mappings();
  if (!all.begin_end(*this)) return;
  unmap();
  all.remove(*this);  // only now may the same memory be mapped again
  all.end_end();
}

bool HostMappingState::overlaps(const DeviceBackend& backend,
                                std::span<const std::byte> memory) const {
  const auto begin = reinterpret_cast<std::uintptr_t>(memory_.data());
  const auto other_begin = reinterpret_cast<std::uintptr_t>(memory.data());
  return owner_.backend.get() == &backend && begin < other_begin + memory.size() &&
         other_begin < begin + memory_.size();
}

void HostMappingState::report_failed_unmapping(const char* reason) const noexcept {
  set_->report([&] {
    return format_text("unmapping {} B of the host at {} from {}: {}", memory_.size(),
                       static_cast<const void*>(memory_.data()), owner_.type.name(), reason);
  });
}

void HostMappingState::unmap() noexcept {
  try {
    owner_.backend->unmap_host_memory(memory_.data());
  } catch (const std::exception& failure) {
    report_failed_unmapping(failure.what());
  } catch (...) {
    report_failed_unmapping("the backend threw an exception");
  }
}

HostMapping::HostMapping() noexcept = default;
HostMapping::~HostMapping() = default;
HostMapping::HostMapping(HostMapping&&) noexcept = default;
HostMapping& HostMapping::operator=(HostMapping&&) noexcept = default;

HostMapping::HostMapping(std::unique_ptr<HostMappingState> mapped) noexcept
    : mapped_(std::move(mapped)) {}

void* HostMapping::data() const noexcept {
  return mapped_ == nullptr ? nullptr : mapped_->memory().data();
}

std::size_t HostMapping::bytes() const noexcept {
  return mapped_ == nullptr ? 0 : mapped_->memory().size();
}

}  // namespace berth
