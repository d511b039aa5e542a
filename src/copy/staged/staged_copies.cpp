// SPDX-License-Identifier: Apache-2.0
#include "copy/staged/staged_copies.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "berth/device_registry.hpp"
#include "berth/error.hpp"

#include "base/processors.hpp"

namespace berth {
namespace {

/// Three to four cores fill a link of 55 GB/s, and a few more hide that they are not alone.
constexpr std::size_t kWorkersByDefault = 6;

std::size_t default_workers() {
  return std::clamp<std::size_t>(processors_allowed() / 2, 1, kWorkersByDefault);
}

}  // namespace

StagedCopies::StagedCopies(const DeviceRegistry& registry, PinnedAllocator& pinned,
                           const CopierOptions& options)
    : pinned_(pinned),
      options_(options),
      stations_(static_cast<std::size_t>(registry.count())),
      work_([](StagedCopy& copy) { copy.release(); }),
      workers_(work_, options.workers.value_or(default_workers())),
      disk_work_([](StagedCopy& copy) { copy.release(); }),
      disk_workers_(disk_work_, options.file_workers) {}

StagedCopies::~StagedCopies() {
  work_.complete_all();
  disk_work_.complete_all();
}

StagedCopies::Station& StagedCopies::station(DeviceContext& context) {
  const MutexLock lock(mutex_);
  auto& station = stations_[static_cast<std::size_t>(context.device().ordinal())];
  if (station == nullptr) station = std::make_unique<Station>(context, pinned_, options_);
  return *station;
}

std::optional<Staging> StagedCopies::obtain(Station& here, StreamRef stream, const HostWork& work,
                                            const StagedRoute& route) {
  const auto share = route.is_read_at_once ? StagingMemory::Share::all : StagingMemory::Share::half;
  std::optional<Staging> staging;
  try {
    staging = here.memory.try_take(route.bytes, share);
    if (!staging && options_.on_staging_shortage == StagingShortage::share)
      staging = share_or_take_spare(here, stream, work, route.bytes);
  } catch (const OutOfMemory&) {
    if (options_.on_staging_shortage == StagingShortage::grow) throw;
    return std::nullopt;
  }
  if (!staging && options_.on_staging_shortage == StagingShortage::grow)
    staging = here.memory.take_beyond(route.bytes, share);
  return staging;
}

void StagedCopies::let_share(Station& here, StreamRef stream, const HostWork& work,
                             const std::shared_ptr<StagingBlocks>& blocks) {
  // The one name of the per-thread default streams is of many streams, which wait for nothing of each other.
  if (blocks->small > 0 || stream.is_per_thread_default()) return;
  const MutexLock lock(here.mutex);
  std::erase_if(here.in_use, [](const auto& entry) { return entry.second.expired(); });
  here.in_use[{stream.native(), &work}] = blocks;
}

std::optional<Staging> StagedCopies::share_or_take_spare(Station& here, StreamRef stream,
                                                         const HostWork& work, std::size_t bytes) {
  std::shared_ptr<StagingBlocks> blocks;
  {
    const MutexLock lock(here.mutex);
    const auto found = here.in_use.find({stream.native(), &work});
    if (found != here.in_use.end()) blocks = found->second.lock();
  }
  return blocks == nullptr ? here.memory.try_take_spare(bytes)
                           : here.memory.share(std::move(blocks), bytes);
}

HostWork::CopyPtr StagedCopies::start(StreamRef stream, StagedRoute route, int priority) {
  DeviceContext& context = stream.context();
  if (!context.driver().has(DriverCall::stream_wait_value32)) return nullptr;
  Station& here = station(context);
  if (!here.has_gates) return nullptr;
  HostWork& work = route.waits_for_disk ? disk_work_ : work_;
  CopyWorkers& workers = route.waits_for_disk ? disk_workers_ : workers_;
  // The driver queues no more than some thousand steps: to submit a large copy somebody must open gates.
  if (!workers.start()) return nullptr;
  std::optional<Staging> staging = obtain(here, stream, work, route);
  if (!staging) return nullptr;
  const std::shared_ptr<StagingBlocks> blocks = staging->blocks;
  const MutexLock order(blocks->submission);
  let_share(here, stream, work, blocks);
  const auto copy = std::make_shared<StagedCopy>(stream, std::move(route), std::move(*staging));
  work.add(copy, priority);
  try {
    copy->submit(here.events);
    work.end_submission(copy);
  } catch (const DriverError& error) {
    work.abandon(copy, std::current_exception());
    if (error.driver_code() != CUDA_ERROR_NOT_SUPPORTED) throw;
    here.has_gates = false;
    return nullptr;
  } catch (...) {
    work.abandon(copy, std::current_exception());
    throw;
  }
  return copy;
}

void StagedCopies::complete_host_side(const HostWork::CopyPtr& copy, CopyDirection direction) {
  const bool waited = work_.complete_host_side(copy);
  if (waited && direction == CopyDirection::to_device) ++waits_;
  if (direction == CopyDirection::to_host) copy->tell_caller();
  if (!copy->is_given_up()) return;
  work_.complete(copy);
  std::rethrow_exception(copy->failure());
}
}  // namespace berth
