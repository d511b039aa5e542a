// SPDX-License-Identifier: Apache-2.0
#include "copy/staged/staged_copies.hpp"

#include <algorithm>
#include <thread>
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
      work_([this](StagedCopy& copy) { end(copy); }),
      workers_(work_, options.workers.value_or(default_workers())),
      disk_work_([this](StagedCopy& copy) { end(copy); }),
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

std::optional<Staging> StagedCopies::obtain(StagingMemory& memory, const DeviceContext& context,
                                            const StagedRoute& route) {
  using Share = StagingMemory::Share;
  const Share share = route.is_read_at_once ? Share::all : Share::half;
  const auto try_take = [&]() -> std::optional<Staging> {
    try {
      return memory.try_take(route.bytes, share);
    } catch (const OutOfMemory&) {
      if (options_.on_staging_shortage == StagingShortage::grow) throw;
      return std::nullopt;
    }
  };
  std::optional<Staging> staging = try_take();
  if (staging || options_.on_staging_shortage == StagingShortage::fall_back) return staging;
  if (options_.on_staging_shortage == StagingShortage::grow)
    return memory.take_beyond(route.bytes, share);
  bool waited = false;
  while (!staging && memory.is_in_use()) {
    if (!complete_oldest(context, waited))
      std::this_thread::yield();  // another thread is about to submit one
    staging = try_take();
  }
  if (waited) ++waits_;
  return staging;
}

bool StagedCopies::complete_oldest(const DeviceContext& context, bool& waited) {
  for (HostWork* const work : {&work_, &disk_work_}) {
    if (const HostWork::CopyPtr oldest = work->oldest(context)) {
      waited = work->complete(oldest) || waited;
      return true;
    }
  }
  return false;
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
  std::optional<Staging> staging = obtain(here.memory, context, route);
  if (!staging) return nullptr;
  const HostWork::CopyPtr copy =
      add(work, stream, std::move(route), priority, here.memory, std::move(*staging));
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

HostWork::CopyPtr StagedCopies::add(HostWork& work, StreamRef stream, StagedRoute route,
                                    int priority, StagingMemory& memory, Staging staging) {
  HostWork::CopyPtr copy;
  try {
    copy = std::make_shared<StagedCopy>(stream, std::move(route), std::move(staging));
    work.add(copy, priority);
  } catch (...) {  // the host's memory
    memory.give_back(copy == nullptr ? std::move(staging) : copy->take_staging());
    throw;
  }
  return copy;
}

void StagedCopies::complete_host_side(const HostWork::CopyPtr& copy, CopyDirection direction) {
  const bool waited = work_.complete_host_side(copy);
  if (waited && direction == CopyDirection::to_device) ++waits_;
  if (!copy->is_given_up()) return;
  work_.complete(copy);
  std::rethrow_exception(copy->failure());
}

void StagedCopies::end(StagedCopy& copy) {
  station(copy.stream().context()).memory.give_back(copy.take_staging());
}

}  // namespace berth
