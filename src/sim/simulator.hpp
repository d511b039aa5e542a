// SPDX-License-Identifier: Apache-2.0
// The simulated CUDA driver, as tests and benchmarks hold it: it runs the driver functions that
// resolve() gives, over host memory. The controls here are not driver calls: they make no progress
// of their own, need no context, and are not counted. "Device" is the slot in order of PCI address,
// which is the ordinal unless CUDA_VISIBLE_DEVICES, `order` or `mig` say otherwise. The instances
// of MIG follow the devices, in order of their device.
//
// Threads  any, except that nobody may be inside a driver call when it is made or destroyed.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/config.hpp"
#include "sim/functions.hpp"

namespace berth::sim {

struct State;

/// How many of each are alive.
struct Live {
  std::size_t contexts = 0;
  std::size_t streams = 0;           ///< without the default streams
  std::size_t streams_draining = 0;  ///< destroyed, with work that has not run
  std::size_t events = 0;
  std::size_t allocations = 0;          ///< of cuMemAlloc
  std::size_t managed_allocations = 0;  ///< of cuMemAllocManaged
  std::size_t host_allocations = 0;     ///< of cuMemHostAlloc
  std::size_t host_registrations = 0;   ///< of cuMemHostRegister
  std::size_t reservations = 0;         ///< of cuMemAddressReserve
  std::size_t mappings = 0;             ///< of cuMemMap
  std::size_t physical_handles = 0;     ///< of cuMemCreate, not released
  std::size_t captures = 0;             ///< begun, not ended
  std::size_t graphs = 0;               ///< with those that captures record into
  std::size_t graph_execs = 0;          ///< of cuGraphInstantiate
  std::size_t user_objects = 0;         ///< of cuUserObjectCreate, with references left
  std::size_t pool_allocations = 0;     ///< of cuMemAllocAsync, until cuMemFreeAsync is called
  std::size_t pools = 0;                ///< of cuMemPoolCreate, until nothing is in them

  bool operator==(const Live&) const = default;
};

/// A range of addresses that a stand-in of a kernel uses.
struct MemoryUse {
  CUdeviceptr address;
  std::size_t bytes;
  bool writes;
};

class Simulator {
 public:
  /// Installs itself; cuInit is still the caller's. There is at most one; it replaces one that
  /// BERTH_SIM made, with all in it. Errors  InvalidArgument where `config` is out of range.
  explicit Simulator(const Config& config);
  /// As Config::parse reads it.
  explicit Simulator(std::string_view config) : Simulator(Config::parse(config)) {}
  /// Every handle and address of this simulator is invalid from now on. Work that is pending is
  /// dropped. Blocking  until a host function that runs has returned.
  ~Simulator();
  Simulator(const Simulator&) = delete;
  Simulator& operator=(const Simulator&) = delete;

  [[nodiscard]] const Config& config() const;

  /// Operations of `stream` that have not run; a graph that was launched on it is one, its end.
  /// Default streams are those of this thread's context.
  [[nodiscard]] std::size_t pending_operations(CUstream stream) const;
  /// Runs the next operation of `stream`; false where there is none, or something else must run
  /// first. Where it is the end of a graph, each call runs one more operation of the graph.
  bool run_next(CUstream stream);
  /// Runs until nothing is pending; how many operations ran.
  std::size_t run_all();

  [[nodiscard]] Live live() const;
  /// One line for each thing in live(), with its handle or address and size.
  [[nodiscard]] std::vector<std::string> live_list() const;
  /// Physical bytes in use, in whole granules.
  [[nodiscard]] std::uint64_t device_bytes_used(int device) const;
  /// From now on the device behaves as if it had only `bytes`, or as much as is in use.
  void set_device_memory_limit(int device, std::uint64_t bytes);

  /// Queues a stand-in of a kernel: it keeps the device's processors busy for `duration_ns` of
  /// virtual time and uses memory, without changing a byte. As a launch would, it runs in stream
  /// order, faults on memory that its device cannot reach, takes part in races, and is captured
  /// where `stream` is. Waits where a launch would: for room in the queue, for the driver's lock, for
  /// the work where launches block. False where `stream` is none, or a capture forbids work on it, or
  /// the queue stays full.
  bool launch(CUstream stream, std::uint64_t duration_ns, const std::vector<MemoryUse>& uses = {});
  /// What happened so far, a line each: calls, work, faults, findings. Empty unless log=on. The same
  /// calls from one thread with one seed give the same text.
  [[nodiscard]] std::string event_log() const;
  /// Virtual time; it passes in calls, in waits, and here, where the host does something else.
  [[nodiscard]] std::uint64_t now_ns() const;
  void spend(std::uint64_t ns);

  /// The calling thread has read `value` in `word`, pinned or managed memory of 4 or 8 bytes, without a
  /// driver call. It comes from now on after the work that wrote that value: a value write, or a
  /// copy, a fill or a kernel's stand-in of at most 8 bytes. Without a `value`: after whatever work
  /// wrote the word last. Programs under test say it by berthSimHostObserves (driver/sim_abi.hpp).
  void host_observes(const void* word, std::optional<std::uint64_t> value = std::nullopt);

  // The rest of what driver/sim_abi.hpp describes, for a program that is a test.
  const void* host_acts_for(const void* actor);
  void host_releases(const void* object);
  void host_acquires(const void* object);
  void host_reads(const void* start, std::size_t bytes);
  void host_writes(const void* start, std::size_t bytes);
  void host_recycles(const void* start, std::size_t bytes);
  /// An allocator gives `bytes` of pinned or managed memory to a new user: a finding if a graph, or
  /// an executable graph, that still exists uses them. host_recycles() checks that too.
  void host_reuses(const void* start, std::size_t bytes);

  /// What the checks have found since the last time this was asked, a line each. Findings that
  /// nobody has taken end the process with the simulator, so that a test cannot overlook them.
  std::vector<std::string> take_findings();

  /// The bytes behind a device or pinned address now, whether work is pending or not; empty where
  /// not all of them are there.
  [[nodiscard]] std::vector<unsigned char> peek(CUdeviceptr address, std::size_t bytes) const;

  /// Calls of a function so far, by its name without version suffix, refused ones included.
  /// Errors  InvalidArgument for a name that is not simulated.
  [[nodiscard]] std::uint64_t calls(std::string_view function) const;
  [[nodiscard]] std::uint64_t operations_run() const;
  /// A fingerprint of the order in which operations have run. In one thread the same configuration
  /// and the same calls give the same value.
  [[nodiscard]] std::uint64_t order_hash() const;

 private:
  std::unique_ptr<State> state_;
};

/// Why BERTH_SIM was refused, when cuInit last had to read it; empty where it was not.
std::string configuration_error();

}  // namespace berth::sim
