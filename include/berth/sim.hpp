// SPDX-License-Identifier: Apache-2.0
// The simulated CUDA driver, under the control of a test: configuration, progress, findings,
// stand-ins for kernels. For programs that link libberth_sim; berth.hpp does not include it.
//
//   berth::sim::Simulator simulator("devices=2,progress=random,seed=7");
//   berth::Runtime runtime({.driver = "sim"});   // runs on that simulator
//   ...
//   for (const std::string& finding : simulator.take_findings()) report(finding);
//
// docs/simulator.md describes the configuration, the findings, and the fault plans
// (`faults=cuMemCreate@3=out_of_memory`). The text of a configuration is the stable interface: a
// key keeps its meaning, and a key that is removed is rejected by name.
//
// The functions here are not driver calls: they run no pending work unless their comments say so,
// need no context, and are not counted. "Device" is the slot in order of PCI address, which is the
// ordinal unless CUDA_VISIBLE_DEVICES, `order` or `mig` change it. MIG instances have slots after
// the devices, in order of their device. Addresses are those of CUdeviceptr.
//
// Threads  Safe from any thread, except that no thread may be inside a driver call when a Simulator
//          is created or destroyed.
// Fork     In a child made by fork(), driver calls return CUDA_ERROR_NOT_INITIALIZED if the parent
//          had initialized the driver, and the parent's Simulator shows the state of the parent at
//          the fork. Its destructor has no effect on the parent and checks no findings; then the
//          child can create a Simulator of its own.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "berth/cpp20.hpp"
#include "berth/export.h"

struct CUstream_st;

namespace berth::sim {

struct State;

/// The number of live objects of each kind.
struct Live {
  std::size_t contexts = 0;
  std::size_t streams = 0;           ///< without the default streams
  std::size_t streams_draining = 0;  ///< destroyed, with work that has not run
  std::size_t events = 0;
  std::size_t allocations = 0;           ///< of cuMemAlloc
  std::size_t managed_allocations = 0;   ///< of cuMemAllocManaged
  std::size_t host_allocations = 0;      ///< of cuMemHostAlloc
  std::size_t host_registrations = 0;    ///< of cuMemHostRegister
  std::size_t reservations = 0;          ///< of cuMemAddressReserve
  std::size_t mappings = 0;              ///< of cuMemMap
  std::size_t physical_handles = 0;      ///< of cuMemCreate, not released
  std::size_t captures = 0;              ///< begun, not ended
  std::size_t graphs = 0;                ///< with those of captures and of child graph nodes
  std::size_t graph_execs = 0;           ///< of cuGraphInstantiate
  std::size_t user_objects = 0;          ///< of cuUserObjectCreate, with references left
  std::size_t pool_allocations = 0;      ///< of cuMemAllocAsync or a graph, until they are freed
  std::size_t pools = 0;                 ///< of cuMemPoolCreate, until they are empty
  std::size_t imported_allocations = 0;  ///< of cuIpcOpenMemHandle

  friend constexpr bool operator==(const Live&, const Live&) = default;
};

/// A range of addresses that a stand-in for a kernel uses.
struct MemoryUse {
  static MemoryUse read(const void* start, std::size_t bytes) {
    return {reinterpret_cast<std::uint64_t>(start), bytes, false};
  }
  /// A range that is read and written is one use of this kind.
  static MemoryUse write(void* start, std::size_t bytes) {
    return {reinterpret_cast<std::uint64_t>(start), bytes, true};
  }

  std::uint64_t address;
  std::size_t bytes;
  bool writes;
};

/// The bytes of each MemoryUse of a kernel, in their order.
using KernelMemory = std::span<const std::span<std::byte>>;

/// The computation of a stand-in for a kernel. `ranges` are copies that host code can access. The
/// bytes that the function leaves in written ranges become the content of the memory; if written
/// ranges overlap, the last one counts.
///
/// Called when the work runs, and again at each launch of a graph, on any thread that is in a
/// driver call. Other threads can call the driver meanwhile. The function must not wait for a
/// thread that waits for this work (after stall_ms that is a finding), nor for a lock that its own
/// thread may hold. A driver call in it returns CUDA_ERROR_NOT_PERMITTED. It must not use the
/// Simulator or berth. If it throws, the kernel has failed as on hardware: no byte changes, calls
/// of its context return CUDA_ERROR_LAUNCH_FAILED from then on, and the reason goes to standard
/// error. It is destroyed after its last use, on any thread that is in a driver call.
using KernelFunction = std::function<void(KernelMemory ranges)>;

/// A word of 4 bytes that a kernel polls until it reaches `value`, in the sense of
/// cuStreamWaitValue32 with CU_STREAM_WAIT_VALUE_GEQ.
struct KernelPoll {
  std::uint64_t address;  ///< a multiple of 4
  std::uint32_t value;
};

/// A stand-in for a kernel.
///
///   simulator.launch(stream, {.name = "add",
///                             .duration_ns = 5'000,
///                             .uses = {berth::sim::MemoryUse::read(x, bytes),
///                                      berth::sim::MemoryUse::write(y, bytes)},
///                             .compute = [](berth::sim::KernelMemory memory) {
///                               add(memory[0], memory[1]);
///                             }});
struct Kernel {
  /// In findings, the log and the timeline; empty: "a kernel".
  std::string name = {};
  /// The time for which it keeps the processors of its device busy, in virtual time.
  std::uint64_t duration_ns = 0;
  std::vector<MemoryUse> uses = {};
  /// Called each time that the kernel runs. Null: no byte changes.
  KernelFunction compute = nullptr;
  /// A persistent kernel: it is on the device before it uses memory, and polls a word of device,
  /// pinned or managed memory first. The work that wrote the word is ordered before the kernel's
  /// uses. While it polls it holds up its stream, but no other stream of its hardware channel. Such
  /// a kernel counts as two operations.
  std::optional<KernelPoll> polls = std::nullopt;
  /// Programmatic dependent launch (CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION): if the
  /// operation before it on the stream is a kernel, it is on the device while that kernel still
  /// runs. Its uses come after the end of that kernel (cudaGridDependencySynchronize).
  bool programmatic = false;
};

/// A launch of a kernel by the program, as cuLaunchKernel and the CUDA runtime make it.
struct KernelLaunch {
  /// The parameter of the kernel at that place, of which `T` is the type.
  template <class T>
  [[nodiscard]] T argument(std::size_t index) const {
    T value;
    std::memcpy(&value, arguments[index], sizeof value);
    return value;
  }

  std::string_view name;  ///< as the device code has it: of C++ the mangled one
  std::array<unsigned, 3> grid;
  std::array<unsigned, 3> block;
  std::size_t shared_bytes;
  void* const* arguments;  ///< a pointer to each; valid until the stand-in returns
};

/// Describes a launch: the ranges that it uses, its computation, and its duration. `name`, `polls`
/// and `programmatic` of the result are ignored: they come from the launch.
///
/// Called in the launching call, before its checks, and never again for a graph that has captured
/// it. If it throws, the launch returns CUDA_ERROR_INVALID_VALUE. It must not call the driver.
using KernelStandIn = std::function<Kernel(const KernelLaunch& launch)>;

/// The kind of a TimelineEntry.
enum class WorkKind {
  kernel,
  fill,
  copy_to_device,  ///< from the host
  copy_to_host,    ///< from a device
  copy_between_devices,
  copy_within_device,
  copy_on_host,   ///< from host memory to host memory
  host_function,  ///< of cuLaunchHostFunc or cuStreamAddCallback, until it is called
  host_wait,      ///< a driver call in which a host thread waited
};

/// A piece of work that has ended, or a wait of the host. Times are virtual, in nanoseconds.
struct TimelineEntry {
  std::string name;  ///< Kernel::name, or the driver function, such as "cuMemcpyAsync"
  WorkKind kind;
  int device;           ///< slot; -1 for host_wait
  CUstream_st* stream;  ///< CU_STREAM_LEGACY or _PER_THREAD for default streams; null for host_wait
  std::uint64_t bytes;  ///< of a copy or fill
  std::uint64_t begin_ns;
  std::uint64_t end_ns;
};

/// The simulated driver of this process while it exists. At most one exists at a time. It replaces
/// the one that BERTH_SIM created, with everything in it.
class BERTH_API Simulator {
 public:
  /// `config` is text as in BERTH_SIM: `key=value` pairs separated by commas; empty text is the
  /// default configuration. The caller still has to call cuInit, as Runtime does.
  /// Errors  InvalidArgument that names the entry and what is accepted.
  explicit Simulator(const std::string& config);
  /// Invalidates every handle and address of this simulator. Pending work is dropped. Findings that
  /// were not taken are printed to standard error and abort the process, so that a test cannot
  /// overlook them. Blocks until a running host function has returned.
  ~Simulator();
  Simulator(const Simulator&) = delete;
  Simulator& operator=(const Simulator&) = delete;

  /// The configuration with every key, as the constructor accepts it.
  [[nodiscard]] std::string config() const;

  /// Operations of `stream` that have not run; a graph launched on it is one, its end. Default
  /// streams are those of this thread's context.
  [[nodiscard]] std::size_t pending_operations(CUstream_st* stream) const;
  /// Runs the next operation of `stream`. False if there is none, or if other work must run first.
  /// If the operation is the end of a graph, each call runs one more operation of the graph.
  bool run_next(CUstream_st* stream);
  /// Runs work until nothing is pending. Returns the number of operations that ran.
  std::size_t run_all();

  [[nodiscard]] Live live() const;
  /// One line for each object in live(), with its handle or address and its size.
  [[nodiscard]] std::vector<std::string> live_list() const;
  /// Physical bytes in use, in whole granules.
  [[nodiscard]] std::uint64_t device_bytes_used(int device) const;
  /// From now on the device behaves as if it had only `bytes`, or as much as is in use.
  void set_device_memory_limit(int device, std::uint64_t bytes);

  /// Submits a stand-in for a kernel. Like a kernel launch, it runs in stream order, faults on
  /// memory that its device cannot reach, takes part in races, and is captured if `stream` is.
  /// Blocks where a launch would: for room in the queue, for the driver's lock, and for the work if
  /// launches block. False if `stream` does not exist, if a capture forbids work on it, if the
  /// queue stays full, or if the address that the kernel polls is no multiple of 4.
  bool launch(CUstream_st* stream, const Kernel& kernel);
  /// Submits a stand-in for a kernel without a name that changes no byte.
  bool launch(CUstream_st* stream, std::uint64_t duration_ns,
              const std::vector<MemoryUse>& uses = {});

  /// Sets the stand-in for kernels of that name in this process, in simulators with kernels=host.
  /// An empty function removes it. `kernel` is the name in the device code, or that in the source
  /// with namespaces and template arguments and without parameters, as in "ns::scale<float>". Needs
  /// no Simulator.
  /// Errors  InvalidArgument if the name is empty.
  static void stand_in_for(const std::string& kernel, KernelStandIn stand_in);

  /// From now on, every piece of work that ends and takes time is recorded, and every driver call
  /// in which a host thread waits for work. Operations that only order work, such as events, are
  /// not recorded. With progress=timed the entries have the times of the run; otherwise each piece
  /// of work takes a microsecond, one after the other. Recording ends with the Simulator.
  void record_timeline();
  /// The entries since the last call, in the order in which they ended. Empty if nothing is
  /// recorded.
  std::vector<TimelineEntry> take_timeline();
  /// The log so far, one line for each call, operation, fault and finding. Empty unless log=on. The
  /// same calls from one thread with one seed produce the same text.
  [[nodiscard]] std::string event_log() const;
  /// Virtual time. It advances in calls, in waits, and in spend().
  [[nodiscard]] std::uint64_t now_ns() const;
  /// The host does something else for `ns` of virtual time.
  void spend(std::uint64_t ns);

  /// The calling thread has read `value` in `word`, 4 or 8 bytes of pinned or managed memory,
  /// without a driver call. From now on the thread is ordered after the work that wrote that value:
  /// a value write, or a copy, fill or stand-in for a kernel of at most 8 bytes. Without `value`:
  /// after the work that wrote the word last. A program under test calls berthSimHostObserves
  /// instead; there is such a function for each of the functions below, too (docs/simulator.md,
  /// "Host threads").
  void host_observes(const void* word, std::optional<std::uint64_t> value = std::nullopt);

  /// Waits of the calling thread from now on order `actor`; null: the thread itself again. Returns
  /// the former actor.
  const void* host_acts_for(const void* actor);
  /// The end of a critical section: work known to the calling thread is now known to `object`.
  void host_releases(const void* object);
  /// The beginning of a critical section: work known to `object` is now known to the calling
  /// thread.
  void host_acquires(const void* object);
  /// The calling thread itself reads or writes pinned or managed memory, now.
  void host_reads(const void* start, std::size_t bytes);
  void host_writes(const void* start, std::size_t bytes);
  /// The memory gets a new user, which the program orders after all users so far.
  void host_recycles(const void* start, std::size_t bytes);
  /// An allocator gives `bytes` of pinned or managed memory to a new user: a finding if a graph, or
  /// an executable graph, that still exists uses them. host_recycles() checks that too.
  void host_reuses(const void* start, std::size_t bytes);

  /// Findings name the `bytes` at `start` as `name`: "writes 64 B at 0x7f0000000000 (name)", or
  /// "(name + 16)" after its beginning. Memory of any kind; each part of it until it is freed,
  /// unmapped or named again. An empty name removes names. A program under test calls
  /// berthSimNameMemory, or NVTX (docs/simulator.md, "Names of memory").
  void name_memory(const void* start, std::size_t bytes, std::string_view name);

  /// The findings since the last call, one line each: races, leaks, stalls. Empty if the checks
  /// found nothing, or with checks=off.
  std::vector<std::string> take_findings();

  /// The bytes at a device or pinned address now, whether or not work is pending. Empty if part of
  /// the range does not exist.
  [[nodiscard]] std::vector<unsigned char> peek(std::uint64_t address, std::size_t bytes) const;

  /// Calls of a function so far, by its name without version suffix ("cuMemAlloc"), including
  /// refused calls.
  /// Errors  InvalidArgument for a function that is not simulated.
  [[nodiscard]] std::uint64_t calls(std::string_view function) const;
  [[nodiscard]] std::uint64_t operations_run() const;
  /// A hash of the order in which operations ran. In one thread, the same configuration and the
  /// same calls produce the same value.
  [[nodiscard]] std::uint64_t order_hash() const;

 private:
  std::unique_ptr<State> state_;
};

}  // namespace berth::sim
