// SPDX-License-Identifier: Apache-2.0
#include "sim/simulator.hpp"

#include <span>
#include <utility>

#include "berth/error.hpp"

#include "base/check.hpp"
#include "base/fork.hpp"
#include "base/format.hpp"
#include "base/quoted.hpp"
#include "base/standard_error.hpp"
#include "sim/call.hpp"
#include "sim/fork.hpp"
#include "sim/state.hpp"
#include "sim/work/stand_ins.hpp"
#include "sim/work/work_memory.hpp"

namespace berth::sim {
namespace {

/// The lock for controls that may run work or drop it.
class BERTH_SCOPED_CAPABILITY WorkLock {
 public:
  WorkLock() BERTH_ACQUIRE(mutex) { mutex.lock(); }
  ~WorkLock() BERTH_RELEASE() {
    mutex.unlock();
    destroy_retired_computations();
  }
  WorkLock(const WorkLock&) = delete;
  WorkLock& operator=(const WorkLock&) = delete;
};

/// The stream of a handle; default streams are those of this thread's context.
Stream* find_stream(State& state, CUstream stream) BERTH_REQUIRES(mutex) {
  const bool is_default =
      stream == nullptr || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD;
  if (!is_default) return state.streams.find(to_handle(stream));
  ThreadState& thread = this_thread();
  thread.enter(state.id);
  Context* context = thread.stack.empty() ? nullptr : state.contexts.find(thread.stack.back());
  if (context == nullptr) return nullptr;
  if (stream != CU_STREAM_PER_THREAD) return state.streams.find(context->legacy_stream);
  const auto own = context->per_thread_streams.find(thread.id);
  return own == context->per_thread_streams.end() ? nullptr : state.streams.find(own->second);
}

std::size_t& count_of(Live& live, RangeKind kind) {
  switch (kind) {
    case RangeKind::allocation:
      return live.allocations;
    case RangeKind::pool_allocation:
    case RangeKind::graph_allocation:
      return live.pool_allocations;
    case RangeKind::mapping:
      return live.mappings;
    case RangeKind::imported:
      return live.imported_allocations;
    case RangeKind::managed:
      return live.managed_allocations;
    case RangeKind::host_allocation:
      return live.host_allocations;
    case RangeKind::host_registration:
      break;
  }
  return live.host_registrations;
}

/// The address of an allocation node has no memory yet.
bool is_live(const Range& range) {
  return range.kind != RangeKind::graph_allocation || range.block != nullptr;
}

const char* name_of(RangeKind kind) {
  switch (kind) {
    case RangeKind::allocation:
      return "allocation";
    case RangeKind::pool_allocation:
      return "pool allocation";
    case RangeKind::graph_allocation:
      return "graph allocation";
    case RangeKind::mapping:
      return "mapping";
    case RangeKind::imported:
      return "imported allocation";
    case RangeKind::managed:
      return "managed allocation";
    case RangeKind::host_allocation:
      return "host allocation";
    case RangeKind::host_registration:
      break;
  }
  return "host registration";
}

/// The work of a launch of `kernel`.
std::vector<Work> works_of(State& state, const Kernel& kernel) {
  std::vector<Work> works;
  if (kernel.polls)
    works.emplace_back(WaitValueWork{.address = kernel.polls->address,
                                     .value = kernel.polls->value,
                                     .bytes = sizeof kernel.polls->value,
                                     .condition = CU_STREAM_WAIT_VALUE_GEQ,
                                     .is_kernel = true});
  KernelWork work{.duration_ns = kernel.duration_ns,
                  .uses = kernel.uses,
                  .compute = Computation(kernel.compute)};
  if (!kernel.name.empty()) work.name = state.kernel_names.insert(kernel.name).first->c_str();
  if (kernel.programmatic) work.resident = Resident::with_previous;
  if (kernel.polls) work.resident = Resident::before_poll;
  works.emplace_back(std::move(work));
  return works;
}

}  // namespace

Simulator::Simulator(const std::string& config)
    : state_(std::make_unique<State>(Config::parse(config), false)) {
  install(*state_);
}

Simulator::~Simulator() {
  uninstall(*state_);
  if (is_parents_driver()) {
    keep_until_exit(std::move(state_));
    return;
  }
  const std::vector<std::string> overlooked = state_->findings.take();
  for (const std::string& finding : overlooked)
    write_to_stderr(format_text("simulator: {}\n", finding));
  if (!overlooked.empty())
    write_to_stderr(format_text("simulator: configured as \"{}\"\n", state_->config.to_text()));
  BERTH_CHECK(overlooked.empty());
  state_.reset();
  destroy_retired_computations();
}

std::string Simulator::config() const {
  return state_->config.to_text();
}

std::size_t Simulator::pending_operations(CUstream stream) const {
  MutexLock lock(mutex);
  Stream* found = find_stream(*state_, stream);
  return found == nullptr ? 0 : found->queue.size();
}

bool Simulator::run_next(CUstream stream) {
  const WorkLock lock;
  Stream* found = find_stream(*state_, stream);
  return found != nullptr && state_->scheduler.run_next(*found);
}

std::size_t Simulator::run_all() {
  const WorkLock lock;
  return state_->scheduler.run_all();
}

Live Simulator::live() const {
  MutexLock lock(mutex);
  Live live;
  live.contexts = state_->contexts.size();
  live.events = state_->events.size();
  live.captures = state_->captures.size();
  live.graphs = state_->graphs.size();
  live.graph_execs = state_->graph_execs.size();
  live.user_objects = state_->user_objects.size();
  live.pools = state_->pools.size() - state_->devices.size();
  state_->streams.for_each([&](const Stream& stream) {
    live.streams += stream.was_created();
    live.streams_draining += stream.destroyed && stream.launcher == 0;
  });
  state_->blocks.for_each(
      [&](const PhysicalBlock& block) { live.physical_handles += block.references != 0; });
  state_->addresses.for_each_range([&](const Range& range) {
    if (is_live(range)) ++count_of(live, range.kind);
  });
  state_->addresses.for_each_reservation([&](const Reservation&) { ++live.reservations; });
  return live;
}

std::vector<std::string> Simulator::live_list() const {
  MutexLock lock(mutex);
  std::vector<std::string> lines;
  state_->contexts.for_each([&](const Context& context) {
    lines.push_back(format_text("context {:#x} of device {}", context.handle, context.device));
  });
  state_->streams.for_each([&](const Stream& stream) {
    if (stream.was_created()) lines.push_back(format_text("stream {:#x}", stream.handle));
    if (stream.launcher != 0)
      lines.push_back(format_text("part of a graph or batch on stream {:#x}, {} operations to run",
                                  stream.launcher, stream.queue.size()));
    else if (stream.destroyed)
      lines.push_back(format_text("destroyed stream {:#x}, {} operations to run", stream.handle,
                                  stream.queue.size()));
  });
  state_->events.for_each(
      [&](const Event& event) { lines.push_back(format_text("event {:#x}", event.handle)); });
  state_->captures.for_each([&](const Capture& capture) {
    lines.push_back(format_text("capture that began on stream {:#x}", capture.origin));
  });
  state_->graphs.for_each([&](const Graph& graph) {
    lines.push_back(format_text("graph {:#x}, {} nodes", graph.handle, graph.nodes.size()));
  });
  state_->graph_execs.for_each([&](const GraphExec& exec) {
    lines.push_back(
        format_text("executable graph {:#x}, {} nodes", exec.handle, exec.nodes.size()));
  });
  state_->user_objects.for_each([&](const UserObject& object) {
    lines.push_back(
        format_text("user object {:#x}, {} references", object.handle, object.references));
  });
  state_->pools.for_each([&](const MemoryPool& pool) {
    if (state_->devices[static_cast<std::size_t>(pool.device)].default_pool != pool.handle)
      lines.push_back(
          format_text("memory pool {:#x}, {} B in use", pool.handle, pool.bytes_used()));
  });
  state_->addresses.for_each_range([&](const Range& range) {
    lines.push_back(format_text("{} {:#x}, {} B", name_of(range.kind), range.start, range.bytes));
  });
  state_->addresses.for_each_reservation([&](const Reservation& reservation) {
    lines.push_back(
        format_text("address reservation {:#x}, {} B", reservation.start, reservation.bytes));
  });
  state_->blocks.for_each([&](const PhysicalBlock& block) {
    if (block.references != 0)
      lines.push_back(format_text("physical handle {:#x}, {} B", block.handle, block.bytes));
  });
  return lines;
}

std::uint64_t Simulator::device_bytes_used(int device) const {
  MutexLock lock(mutex);
  return state_->devices.at(static_cast<std::size_t>(device)).memory->bytes_used();
}

void Simulator::set_device_memory_limit(int device, std::uint64_t bytes) {
  MutexLock lock(mutex);
  state_->devices.at(static_cast<std::size_t>(device)).memory->set_limit(bytes);
}

bool Simulator::launch(CUstream stream, std::uint64_t duration_ns,
                       const std::vector<MemoryUse>& uses) {
  return launch(stream, Kernel{.duration_ns = duration_ns, .uses = uses});
}

bool Simulator::launch(CUstream stream, const Kernel& kernel) {
  const WorkLock lock;
  const Stream* found = find_stream(*state_, stream);
  const bool is_aligned = !kernel.polls || kernel.polls->address % sizeof kernel.polls->value == 0;
  if (found == nullptr || !is_aligned) return false;
  const CallSite call{Function::count, state_->calls_made};
  state_->driver_lock.await(*state_, found->context, call);
  for (Work& work : works_of(*state_, kernel)) {
    state_->call = call;
    Stream* now = find_stream(*state_, stream);  // each may have waited for room in the queue
    if (now == nullptr || enqueue(*state_, call, *now, std::move(work)) != CUDA_SUCCESS)
      return false;
  }
  state_->scheduler.end_call();
  return true;
}

void Simulator::stand_in_for(const std::string& kernel, KernelStandIn stand_in) {
  if (kernel.empty())
    throw InvalidArgument("simulator: a stand-in for a kernel without a name; accepted: a name");
  set_stand_in(kernel, std::move(stand_in));
}

void Simulator::record_timeline() {
  MutexLock lock(mutex);
  state_->recorder.start();
}

std::vector<TimelineEntry> Simulator::take_timeline() {
  MutexLock lock(mutex);
  return state_->recorder.take();
}

std::string Simulator::event_log() const {
  MutexLock lock(mutex);
  return state_->log.text();
}

std::uint64_t Simulator::now_ns() const {
  MutexLock lock(mutex);
  return state_->scheduler.now_ns();
}

void Simulator::spend(std::uint64_t ns) {
  const WorkLock lock;
  state_->scheduler.spend(ns);
}

void Simulator::host_observes(const void* word, std::optional<std::uint64_t> value) {
  MutexLock lock(mutex);
  state_->races.observe(static_cast<const std::byte*>(word), value);
}

const void* Simulator::host_acts_for(const void* actor) {
  return berth_sim_berthSimHostActsFor(actor);
}

void Simulator::host_releases(const void* object) {
  berth_sim_berthSimHostReleases(object);
}

void Simulator::host_acquires(const void* object) {
  berth_sim_berthSimHostAcquires(object);
}

void Simulator::host_reads(const void* start, std::size_t bytes) {
  berth_sim_berthSimHostReads(start, bytes);
}

void Simulator::host_writes(const void* start, std::size_t bytes) {
  berth_sim_berthSimHostWrites(start, bytes);
}

void Simulator::host_recycles(const void* start, std::size_t bytes) {
  berth_sim_berthSimHostRecycles(start, bytes);
}

void Simulator::host_reuses(const void* start, std::size_t bytes) {
  berth_sim_berthSimHostReuses(start, bytes);
}

void Simulator::name_memory(const void* start, std::size_t bytes, std::string_view name) {
  MutexLock lock(mutex);
  state_->memory_names.set(reinterpret_cast<std::uint64_t>(start), bytes, name);
}

std::vector<std::string> Simulator::take_findings() {
  MutexLock lock(mutex);
  return state_->findings.take();
}

std::vector<unsigned char> Simulator::peek(std::uint64_t address, std::size_t bytes) const {
  MutexLock lock(mutex);
  std::vector<unsigned char> content(bytes);
  if (!read(*state_, address, std::as_writable_bytes(std::span(content)))) content.clear();
  return content;
}

std::uint64_t Simulator::calls(std::string_view function) const {
  MutexLock lock(mutex);
  for (std::size_t i = 0; i < state_->calls.size(); ++i)
    if (function == function_name(static_cast<Function>(i))) return state_->calls[i];
  throw InvalidArgument(
      format_text("simulator: {} is no simulated function; accepted: a name such as cuMemAlloc",
                  quoted(function)));
}

std::uint64_t Simulator::operations_run() const {
  MutexLock lock(mutex);
  return state_->scheduler.operations_run();
}

std::uint64_t Simulator::order_hash() const {
  MutexLock lock(mutex);
  return state_->scheduler.order_hash();
}

}  // namespace berth::sim
