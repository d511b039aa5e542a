// SPDX-License-Identifier: Apache-2.0
// The complete state of the simulated driver, and the installed instance. Guarded by sim::mutex.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <sys/types.h>
#include <vector>

#include "base/mutex.hpp"
#include "sim/check/call_stacks.hpp"
#include "sim/check/ended_memory.hpp"
#include "sim/check/event_log.hpp"
#include "sim/check/memory_names.hpp"
#include "sim/check/process_count.hpp"
#include "sim/check/race_detector.hpp"
#include "sim/check/stream_order.hpp"
#include "sim/config.hpp"
#include "sim/device/context.hpp"
#include "sim/device/device.hpp"
#include "sim/device/driver_lock.hpp"
#include "sim/fault/fault_injector.hpp"
#include "sim/functions.hpp"
#include "sim/graph/capture.hpp"
#include "sim/graph/graph.hpp"
#include "sim/lock.hpp"
#include "sim/memory/address_space.hpp"
#include "sim/memory/ipc_memory.hpp"
#include "sim/memory/linear_memory.hpp"
#include "sim/memory/managed_advice.hpp"
#include "sim/memory/memory_pool.hpp"
#include "sim/memory/physical_memory.hpp"
#include "sim/nvtx/memory_regions.hpp"
#include "sim/work/channels.hpp"
#include "sim/work/device_function.hpp"
#include "sim/work/event.hpp"
#include "sim/work/recorder.hpp"
#include "sim/work/scheduler.hpp"
#include "sim/work/stream.hpp"

namespace berth::sim {

/// A physical device or a MIG instance. Its index in State::devices is its slot: first the devices,
/// in order of PCI address; then the instances, in order of device and index.
struct Device {
  DeviceFacts facts;
  std::unique_ptr<PhysicalMemory> memory;
  LinearMemory linear;
  int retains = 0;     ///< of the primary context
  Handle primary = 0;  ///< 0 while it is not retained, and after a reset
  unsigned primary_flags = 0;
  bool lost = false;  ///< set by a fault, permanently
  Handle default_pool = 0;
  Handle pool = 0;  ///< the pool of cuMemAllocAsync
  GraphMemoryUse graph_memory = {};
};

struct State {
  /// `alone`: no test takes the findings.
  explicit State(Config config_, bool alone);
  ~State();  ///< frees all pages
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  [[nodiscard]] Device& device_at(int ordinal) {
    return devices[static_cast<std::size_t>(visible[static_cast<std::size_t>(ordinal)])];
  }
  [[nodiscard]] bool is_ordinal(int ordinal) const {
    return ordinal >= 0 && static_cast<std::size_t>(ordinal) < visible.size();
  }
  /// The ordinal of cuDeviceGet; -1 if the device is hidden.
  [[nodiscard]] int ordinal_of(int slot) const;

  const Config config;
  const std::uint64_t id;  ///< unique among the simulators of the process
  std::vector<Device> devices;
  bool initialized = false;  ///< set by cuInit
  pid_t process = 0;         ///< the process that called cuInit
  std::vector<int> visible;  ///< the slot of each ordinal; set by cuInit
  int nvml_users = 0;
  std::uint64_t host_bytes_pinned = 0;
  std::array<std::uint64_t, static_cast<std::size_t>(Function::count)> calls{};
  std::uint64_t calls_made = 0;
  CallSite call;                                    ///< the running call
  std::set<std::string, std::less<>> kernel_names;  ///< work and findings refer to them

  bool ending = false;  ///< set during destruction: remaining resources are not released
  AddressSpace addresses;
  GraphMemories graph_memories;
  ManagedAdvice advice;
  IpcImports ipc_imports;
  Clock shared_order;  ///< what precedes the records of interprocess events
  PhysicalBlocks blocks;
  Contexts contexts;
  Streams streams;
  Events events;
  Captures captures;
  Graphs graphs;
  GraphNodes graph_nodes;
  GraphExecs graph_execs;
  UserObjects user_objects;
  Modules modules;
  DeviceFunctions functions;
  std::vector<HeldUntil> held_until;
  FaultInjector faults;
  EventLog log;
  CallStacks stacks;
  Findings findings;
  MemoryNames memory_names;
  MemoryRegions memory_regions{memory_names};
  EndedMemory ended_memory;
  ProcessCount failed_calls;      ///< that returned an error
  ProcessCount skipped_launches;  ///< by kernels=skip
  ProcessCount unrun_operations;  ///< that use memory, and were pending when the process ended
  HappensBefore order;
  RaceDetector races;
  MemoryPools pools;
  std::vector<Handle> pools_to_synchronize;  ///< those that await it; or a handle that has ended
  Channels channels;
  DriverLock driver_lock;
  const LaunchBlocking launch_blocking;
  Recorder recorder;
  Scheduler scheduler;
};

/// From now on every call that needs the device fails. On hardware the error code depends on the
/// call that detects the loss; here it is always CUDA_ERROR_UNKNOWN.
void lose_device(State& state, std::size_t slot);

/// Frees the memory of a block without references.
void release_block(State& state, PhysicalBlock& block);

/// The installed state, or null.
State* installed_state() BERTH_REQUIRES(mutex);
/// State::id of the installed state; 0 if there is none. Needs no lock.
std::uint64_t installed_id();
/// The installed state. If there is none, installs one for the rest of the process, configured by
/// BERTH_SIM. Null if BERTH_SIM is malformed.
State* installed_or_from_environment() BERTH_REQUIRES(mutex);
/// Installs `state`. Replaces only a state that was configured by BERTH_SIM. In a forked child the
/// driver works again: `state` is not the parent's.
void install(State& state) BERTH_EXCLUDES(mutex);
/// Removes `state`, and stops its work. No thread may be in a call. In a forked child the threads
/// of the parent's state are missing, so it is not stopped and must be kept.
void uninstall(State& state) BERTH_EXCLUDES(mutex);

/// The error about BERTH_SIM; empty if it is well-formed.
std::string configuration_error() BERTH_EXCLUDES(mutex);
/// Prints it once for each text, unless configuration_error() is called for it.
void print_configuration_error() BERTH_REQUIRES(mutex);

/// The result of cuDriverGetVersion: that of the installed state, or the one in BERTH_SIM.
int simulated_driver_version() BERTH_EXCLUDES(mutex);

}  // namespace berth::sim
