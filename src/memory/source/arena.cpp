// SPDX-License-Identifier: Apache-2.0
#include "memory/source/arena.hpp"

#include <algorithm>
#include <string>
#include <sys/resource.h>
#include <utility>

#include "berth/bytes.hpp"
#include "berth/error.hpp"

#include "base/arithmetic.hpp"
#include "base/check.hpp"
#include "base/format.hpp"
#include "memory/source/physical_memory.hpp"
#include "stream/wait.hpp"

namespace berth {
namespace {

/// A driver reports out of memory if address space is short.
[[noreturn]] void reject_reservation(const Driver& driver, CUresult result, std::size_t bytes) {
  driver.require_here();
  std::string limit;
  if (rlimit of_process{};
      getrlimit(RLIMIT_AS, &of_process) == 0 && of_process.rlim_cur != RLIM_INFINITY)
    limit = format_text(", and the process may have {} in all (ulimit -v)",
                        format_bytes(of_process.rlim_cur));
  const char* const accepted =
      limit.empty() ? "a higher limit of address space (ulimit -v)" : "a higher limit";
  throw DriverError(format_text("cuMemAddressReserve failed: {}; asked for {} of address space{}; "
                                "accepted: {}, or virtual_memory=off",
                                driver.describe(result), format_bytes(bytes), limit, accepted),
                    result);
}

}  // namespace

Arena::Arena(DeviceContext& context, std::size_t bytes, std::size_t granule_bytes,
             const MappingNotices& notices)
    : context_(context),
      notices_(notices),
      access_{access_by(context)},
      bytes_(bytes),
      granule_bytes_(granule_bytes) {
  BERTH_CHECK(bytes % granule_bytes == 0);
  handles_.resize(bytes / granule_bytes, 0);
  is_asleep_.resize(handles_.size());
  stuck_.resize(handles_.size());
  is_held_.resize(handles_.size());
  const ContextScope scope(context);
  CUdeviceptr address = 0;
  const CUresult reserved = context.driver().try_mem_address_reserve(&address, bytes, granule_bytes,
                                                                     CUdeviceptr{0}, 0ull);
  if (reserved != CUDA_SUCCESS) reject_reservation(context.driver(), reserved, bytes);
  address_ = static_cast<std::uintptr_t>(address);
}

Arena::~Arena() {
  unmap_all();
  const ContextScope scope(context_, std::nothrow);
  context_.driver().mem_address_free_or_report(CUdeviceptr{address_}, bytes_);
}

template <class IsIn, class Visit>
void Arena::for_each_run(const IsIn& is_in, const Visit& visit) const {
  for (std::size_t first = 0; first < handles_.size();) {
    std::size_t end = first;
    while (end < handles_.size() && is_in(end)) ++end;
    if (end != first) visit(address_ + first * granule_bytes_, (end - first) * granule_bytes_);
    first = end + 1;
  }
}

void Arena::grant_access(const CUmemAccessDesc& user) {
  if (has_access(access_, user)) return;
  const ContextScope scope(context_);
  for_each_run([&](std::size_t granule) { return is_mapped(granule); },
               [&](std::uintptr_t address, std::size_t bytes) {
                 context_.driver().mem_set_access(CUdeviceptr{address}, bytes, &user,
                                                  std::size_t{1});
               });
  access_.push_back(user);
}

void Arena::withdraw_all() const noexcept {
  for_each_run([&](std::size_t granule) { return handles_[granule] != 0 && !is_stuck(granule); },
               [&](std::uintptr_t address, std::size_t bytes) {
                 notices_.unmapping({address, bytes, granule_bytes_});
               });
}

bool Arena::map_granule(std::size_t granule) {
  const Driver& driver = context_.driver();
  make_host_progress(context_);
  if (handles_[granule] == 0) {
    const CUmemAllocationProp properties = physical_properties(context_);
    CUmemGenericAllocationHandle handle = 0;
    const CUresult created = driver.try_mem_create(&handle, granule_bytes_, &properties, 0ULL);
    if (!driver.succeeded(DriverCall::mem_create, created, CUDA_ERROR_OUT_OF_MEMORY)) return false;
    handles_[granule] = handle;
    set_stuck(granule, Remains::handle);
  }
  if (!is_mapped(granule)) {
    const CUresult mapped = driver.try_mem_map(address_of(granule), granule_bytes_, std::size_t{0},
                                               handles_[granule], 0ULL);
    if (!driver.succeeded(DriverCall::mem_map, mapped, CUDA_ERROR_OUT_OF_MEMORY)) return false;
  }
  set_stuck(granule, Remains::nothing);
  return true;
}

DriverRefusal Arena::unmap_granule(std::size_t granule) noexcept {
  make_host_progress(context_);
  const Driver& driver = context_.driver();
  const auto [refusal, remains] =
      is_mapped(granule) ? unmap_and_release(driver, handles_[granule], address_of(granule),
                                             granule_bytes_, access_)
                         : release(driver, handles_[granule]);
  set_stuck(granule, remains);
  if (remains == Remains::nothing) handles_[granule] = 0;
  return refusal;
}

DriverRefusal Arena::unmap_unless_held(std::size_t granule) noexcept {
  if (!is_held_[granule]) return unmap_granule(granule);
  BERTH_CHECK(is_mapped(granule));
  is_held_[granule] = false;
  set_stuck(granule, Remains::memory);
  return {};
}

void Arena::set_stuck(std::size_t granule, Remains remains) noexcept {
  const bool was_stuck = is_stuck(granule);
  stuck_[granule] = remains;
  if (is_stuck(granule) == was_stuck) return;
  BERTH_CHECK(!was_stuck || stuck_count_ > 0);
  stuck_count_ += was_stuck ? -1 : 1;
  if (is_asleep_[granule]) stuck_asleep_count_ += was_stuck ? -1 : 1;
}

bool Arena::map(std::uintptr_t address, std::size_t bytes) {
  if (!map_held(address, bytes)) return false;
  const std::size_t first = granule_at(address);
  for (std::size_t granule = first; granule < first + bytes / granule_bytes_; ++granule) {
    is_held_[granule] = false;
  }
  return true;
}

bool Arena::map_held(std::uintptr_t address, std::size_t bytes) {
  BERTH_CHECK(contains(address) && is_aligned(address - address_, granule_bytes_));
  BERTH_CHECK(bytes > 0 && bytes % granule_bytes_ == 0);
  const std::size_t first = granule_at(address);
  const std::size_t end = first + bytes / granule_bytes_;
  for (std::size_t granule = first; granule < end; ++granule) {
    BERTH_CHECK(handles_[granule] == 0 || is_stuck(granule));
  }
  const ContextScope scope(context_);
  const auto undo = [&] {
    for (std::size_t granule = first; granule < end; ++granule) {
      if (handles_[granule] != 0) unmap_unless_held(granule);
    }
  };
  try {
    const bool mapped = map_granules(first, end);
    if (!mapped) undo();
    if (mapped) notices_.mapped({address, bytes, granule_bytes_});
    return mapped;
  } catch (...) {
    undo();
    throw;
  }
}

bool Arena::map_granules(std::size_t first, std::size_t end) {
  for (std::size_t granule = first; granule < end; ++granule) {
    if (!map_granule(granule)) return false;
  }
  const Driver& driver = context_.driver();
  const CUdeviceptr address = address_ + first * granule_bytes_;
  const CUresult allowed = driver.try_mem_set_access(address, (end - first) * granule_bytes_,
                                                     access_.data(), access_.size());
  return driver.succeeded(DriverCall::mem_set_access, allowed, CUDA_ERROR_OUT_OF_MEMORY);
}

DriverRefusal Arena::unmap(std::uintptr_t address, std::size_t bytes) noexcept {
  BERTH_CHECK(contains(address) && is_aligned(address - address_, granule_bytes_));
  BERTH_CHECK(bytes % granule_bytes_ == 0);
  const ContextScope scope(context_, std::nothrow);
  notices_.unmapping({address, bytes, granule_bytes_});
  const std::size_t first = granule_at(address);
  DriverRefusal last;
  for (std::size_t granule = first; granule < first + bytes / granule_bytes_; ++granule) {
    BERTH_CHECK(handles_[granule] != 0);
    if (const DriverRefusal refusal = unmap_unless_held(granule)) last = refusal;
  }
  return last;
}

bool Arena::keep(std::uintptr_t address, std::size_t bytes) noexcept {
  if (!notices_.mapped_still({address, bytes, granule_bytes_})) return false;
  const std::size_t first = granule_at(address);
  for (std::size_t granule = first; granule < first + bytes / granule_bytes_; ++granule) {
    BERTH_CHECK(is_usable(granule));
    set_stuck(granule, Remains::nothing);
  }
  return true;
}

DriverRefusal Arena::retry_stuck() noexcept {
  DriverRefusal last;
  if (stuck_count_ == 0) return last;
  const ContextScope scope(context_, std::nothrow);
  for (std::size_t granule = 0; granule < handles_.size(); ++granule) {
    if (!is_stuck(granule)) continue;
    if (const DriverRefusal refusal = unmap_unless_held(granule)) last = refusal;
  }
  return last;
}

DriverRefusal Arena::sleep() noexcept {
  BERTH_CHECK(asleep_count_ == 0);
  const ContextScope scope(context_, std::nothrow);
  withdraw_all();
  DriverRefusal last;
  for (std::size_t granule = 0; granule < handles_.size(); ++granule) {
    if (handles_[granule] == 0 || is_stuck(granule)) continue;
    is_asleep_[granule] = true;
    ++asleep_count_;
    if (const DriverRefusal refusal = unmap_unless_held(granule)) last = refusal;
  }
  return last;
}

bool Arena::wake() {
  std::size_t end = 0;  // of those that are awake
  const auto undo = [&] {
    while (end-- > 0) {
      if (is_asleep_[end]) unmap(address_ + end * granule_bytes_, granule_bytes_);
    }
    let_go();
  };
  try {
    while (end < handles_.size()) {
      std::size_t run = 0;  // adjacent granules, which get access by one call
      while (end + run < handles_.size() && is_asleep_[end + run]) ++run;
      if (run > 0 && !map_held(address_ + end * granule_bytes_, run * granule_bytes_)) {
        undo();
        return false;
      }
      end += std::max<std::size_t>(run, 1);
    }
  } catch (...) {
    undo();
    throw;
  }
  let_go();
  BERTH_CHECK(stuck_asleep_count_ == 0);
  is_asleep_.assign(handles_.size(), false);
  asleep_count_ = 0;
  return true;
}

void Arena::unmap_all() noexcept {
  const ContextScope scope(context_, std::nothrow);
  withdraw_all();
  const Driver& driver = context_.driver();
  for (std::size_t granule = 0; granule < handles_.size(); ++granule) {
    if (handles_[granule] == 0) continue;
    make_host_progress(context_);
    if (is_mapped(granule)) driver.mem_unmap_or_report(address_of(granule), granule_bytes_);
    // A mapping keeps its memory, so the handle is released even if the mapping cannot be undone.
    driver.mem_release_or_report(std::exchange(handles_[granule], 0));
    set_stuck(granule, Remains::nothing);
  }
}

}  // namespace berth
