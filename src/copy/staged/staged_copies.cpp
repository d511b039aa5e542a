// SPDX-License-Identifier: Apache-2.0
#include "copy/staged/staged_copies.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "berth/device_registry.hpp"
#include "berth/error.hpp"

#include "base/check.hpp"
#include "base/processors.hpp"

namespace berth {
namespace {

/// Three to four cores saturate a link of 55 GB/s; the rest compensates for other load on the
/// cores.
constexpr std::size_t kWorkersByDefault = 6;

/// Pieces that a thread moves before it waits for an event or a device, for which the copies that
/// it waits for are unknown. They take about 300 us.
constexpr std::size_t kPiecesPerCall = 8;

std::size_t default_workers() {
  return std::clamp<std::size_t>(processors_allowed() / 2, 1, kWorkersByDefault);
}

}  // namespace

StagedCopies::StagedCopies(const DeviceRegistry& registry, PinnedAllocator& pinned,
                           const CopierOptions& options)
    : pinned_(pinned),
      options_(options),
      device_staging_(static_cast<std::size_t>(registry.count())),
      work_([](StagedCopy& copy) { copy.release(); }, [this] { watch_.wake_for_owner(); }),
      disk_work_([](StagedCopy& copy) { copy.release(); }, [this] { watch_.wake_for_owner(); }),
      watch_({&work_, &disk_work_}),
      workers_(work_, options.workers.value_or(default_workers())),
      disk_workers_(disk_work_, options.file_workers) {}

StagedCopies::~StagedCopies() {
  work_.complete_all();
  disk_work_.complete_all();
  std::vector<DeviceContext*> contexts;
  {
    const MutexLock lock(mutex_);
    contexts.swap(contexts_);
  }
  // Without the lock, which calls of other threads into this need.
  for (DeviceContext* const context : contexts) {
    context->remove_observer(*this);
    context->host_progress().remove(*this);
  }
}

StagedCopies::DeviceStaging& StagedCopies::device_staging(DeviceContext& context) {
  const MutexLock lock(mutex_);
  auto& device_staging = device_staging_[static_cast<std::size_t>(context.device().ordinal())];
  if (device_staging != nullptr) return *device_staging;
  auto made = std::make_unique<DeviceStaging>(context, pinned_, options_);
  contexts_.reserve(device_staging_.size());
  context.host_progress().add(*this);
  try {
    context.add_observer(*this);
  } catch (...) {
    context.host_progress().remove(*this);
    throw;
  }
  BERTH_CHECK(contexts_.size() < contexts_.capacity());  // nothing fails after the registration
  contexts_.push_back(&context);
  device_staging = std::move(made);
  return *device_staging;
}

StagedCopies::DeviceStaging* StagedCopies::find_device_staging(const DeviceContext& context) {
  const MutexLock lock(mutex_);
  return device_staging_[static_cast<std::size_t>(context.device().ordinal())].get();
}

StagedCopies::StreamKey StagedCopies::key_of(StreamRef stream, const HostWork& work) {
  const std::uint64_t number = stream.context().stream_number(stream.native());
  return {number, number == 0 ? stream.native() : nullptr, &work};
}

HostWork::LanePtr StagedCopies::lane_of(DeviceStaging& here, StreamRef stream,
                                        const HostWork& work) {
  // The handle of the per-thread default stream refers to many streams, which do not wait for each
  // other. So it has no entry, and its copies share nothing.
  if (stream.is_per_thread_default()) return std::make_shared<CopyLane>();
  const MutexLock lock(here.mutex);
  StreamStaging& its = here.streams[key_of(stream, work)];
  HostWork::LanePtr lane = its.lane.lock();
  if (lane != nullptr) return lane;
  lane = std::make_shared<CopyLane>();
  its.lane = lane;
  if (here.streams.size() > here.streams_bound) {
    std::erase_if(here.streams, [](const auto& entry) { return entry.second.lane.expired(); });
    here.streams_bound = std::max(here.streams_bound, 2 * here.streams.size());
  }
  return lane;
}

std::optional<Staging> StagedCopies::obtain(DeviceStaging& here, StreamRef stream,
                                            const HostWork& work, const StagedRoute& route) {
  using enum StagingMemory::Share;
  const bool is_load = route.waits_for_disk && route.direction == CopyDirection::to_device;
  const auto share = route.is_read_at_once ? all : is_load ? third : half;
  std::optional<Staging> staging;
  try {
    staging = here.memory.try_take(route.bytes, share);
    if (!staging && options_.staging_on_shortage == StagingShortage::share)
      staging = share_or_take_spare(here, stream, work, route.bytes);
  } catch (const OutOfMemory&) {  // NOLINT(bugprone-empty-catch): as if all slots were in use
  }
  if (!staging && options_.staging_on_shortage == StagingShortage::grow)
    staging = here.memory.take_unbounded(route.bytes, share);
  return staging;
}

void StagedCopies::offer_blocks(DeviceStaging& here, StreamRef stream, const HostWork& work,
                                const std::shared_ptr<StagingBlocks>& blocks) {
  if (!blocks->are_slots()) return;
  const MutexLock lock(here.mutex);
  const auto found = here.streams.find(key_of(stream, work));
  if (found != here.streams.end()) found->second.blocks = blocks;
}

std::optional<Staging> StagedCopies::share_or_take_spare(DeviceStaging& here, StreamRef stream,
                                                         const HostWork& work, std::size_t bytes) {
  std::shared_ptr<StagingBlocks> blocks;
  {
    const MutexLock lock(here.mutex);
    const auto found = here.streams.find(key_of(stream, work));
    if (found != here.streams.end()) blocks = found->second.blocks.lock();
  }
  return blocks == nullptr ? here.memory.try_take_spare(bytes)
                           : here.memory.share(std::move(blocks), bytes);
}

HostWork::CopyPtr StagedCopies::start(StreamRef stream, StagedRoute route, int priority) {
  DeviceStaging& here = device_staging(stream.context());
  if (!here.gates.are_available()) return nullptr;
  HostWork& work = route.waits_for_disk ? disk_work_ : work_;
  CopyWorkers& workers = route.waits_for_disk ? disk_workers_ : workers_;
  // The queue of the driver holds about a thousand entries, so a large copy can only be submitted
  // while other threads open gates.
  if (!workers.start() || !watch_.start(stream.context().driver())) return nullptr;
  const HostWork::LanePtr lane = lane_of(here, stream, work);
  std::optional<Staging> staging = obtain(here, stream, work, route);
  if (!staging) return nullptr;
  const std::shared_ptr<StagingBlocks> blocks = staging->blocks;
  const auto copy = std::make_shared<StagedCopy>(stream, std::move(route), std::move(*staging));
  std::optional<StreamGates::NextTrial> trial;  // its end may call the program's sink
  if (copy->begins_with_gate()) trial.emplace(here.gates);
  try {
    work.start(copy, lane, priority, here.events, trial ? trial->get() : nullptr);
  } catch (const DriverError& error) {
    if (error.driver_code() != CUDA_ERROR_NOT_SUPPORTED) throw;
    here.gates.disable();
    return nullptr;
  }
  watch_.wake();
  offer_blocks(here, stream, work, blocks);
  return copy;
}

void StagedCopies::complete_host_side(const HostWork::CopyPtr& copy, CopyDirection direction) {
  const bool waited = work_.complete_host_side(copy);
  if (waited && direction == CopyDirection::to_device) ++waits_;
  if (direction == CopyDirection::to_host) copy->report_observed_progress();
  if (!copy->has_failed()) return;
  work_.complete(copy);
  std::rethrow_exception(copy->failure());
}

std::size_t StagedCopies::bytes_in_use() const {
  const MutexLock lock(mutex_);
  std::size_t bytes = 0;
  for (const auto& device_staging : device_staging_) {
    if (device_staging != nullptr) bytes += device_staging->memory.bytes_in_use();
  }
  return bytes;
}

void StagedCopies::stream_retiring(DeviceContext& context, CUstream native) noexcept {
  DeviceStaging* const here = find_device_staging(context);
  if (here == nullptr) return;
  const MutexLock lock(here->mutex);
  for (const HostWork* const work : {&work_, &disk_work_})
    here->streams.erase(key_of(StreamRef(context, native), *work));
}

void StagedCopies::make_progress(DeviceContext& context, CUstream native) noexcept {
  const StreamRef stream(context, native);
  DeviceStaging* const here = find_device_staging(stream.context());
  if (here == nullptr) return;
  for (HostWork* const work : {&work_, &disk_work_}) {
    HostWork::LanePtr lane;
    {
      const MutexLock lock(here->mutex);
      const auto found = here->streams.find(key_of(stream, *work));
      if (found != here->streams.end()) lane = found->second.lane.lock();
    }
    if (lane != nullptr) work->process_lane(lane);
  }
}

void StagedCopies::make_progress(DeviceContext&) noexcept {
  for (std::size_t piece = 0; piece < kPiecesPerCall && work_.move_piece(); ++piece) continue;
}

}  // namespace berth
