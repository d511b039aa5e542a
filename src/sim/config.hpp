// SPDX-License-Identifier: Apache-2.0
// The configuration of the simulator, parsed from text such as
// "devices=2,memory=80GiB,progress=random,seed=7". A Config that parse() returned is within the
// ranges below; the Simulator relies on it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "berth/bytes.hpp"

#include "sim/device/mig.hpp"
#include "sim/fault/fault_plan.hpp"

namespace berth::sim {

/// When pending work runs.
enum class Progress {
  eager,   ///< at submission, as soon as its dependencies allow
  manual,  ///< when a test steps it, or a host call waits for it
  random,  ///< at each driver call, a seeded choice among eligible work
  timed,   ///< in virtual time, with the costs of the cost model
};

/// The device numbering if CUDA_DEVICE_ORDER is not PCI_BUS_ID.
enum class DeviceOrder {
  pci,      ///< as NVML numbers the devices
  reverse,  ///< reversed, as if the fastest device were in the last slot
};

/// The range of CUDA_DEVICE_MAX_CONNECTIONS.
inline constexpr int kConnectionsMax = 32;
inline constexpr int kConnectionsDefault = 8;

/// The default of Config::silence_ms where no test drives the simulator.
inline constexpr int kSilenceMsDefault = 250;

/// How the race detector orders host threads, whose locks it cannot see.
enum class HostThreads {
  together,  ///< work that one thread has waited for is complete for all threads
  apart,     ///< it is complete for that thread, and for threads that acquire from it
};

/// Which calls that submit to a stream return only when the stream has completed it.
enum class LaunchBlocking {
  none,  ///< "off"
  work,  ///< "on": all but waits and records
  all,   ///< waits and records, too
};

/// How devices access pageable host memory.
/// Source: CUDA C++ Programming Guide, "Unified Memory Programming", on its levels of support.
enum class PageableAccess {
  none,              ///< no access: the driver stages copies
  page_faults,       ///< by page faults, as with HMM on x86; copies are staged too
  host_page_tables,  ///< as pinned memory, as on Grace Hopper: copies are asynchronous
};

/// The checks. A lack of progress is always reported, because it changes the results of calls.
struct Checks {
  Checks(bool all = true)
      : races(all), aliasing(all), leaks(all), faults(all) {}  // NOLINT: on or off

  [[nodiscard]] bool any_use() const { return races || aliasing; }
  /// Whether findings that begin with `kind` are enabled.
  [[nodiscard]] bool wants(std::string_view kind) const;
  explicit operator bool() const { return any_use() || leaks || faults; }
  bool operator==(const Checks&) const = default;

  bool races;
  bool aliasing;
  bool leaks;
  bool faults;
};

/// The effect of a finding in a program that runs without a test.
enum class OnFinding {
  report,  ///< the program continues
  abort,   ///< the program calls abort()
};

/// The effect of a kernel launch. Device code is not run.
enum class Kernels {
  refuse,  ///< the launch fails
  skip,    ///< the launch is ordered in its stream, but accesses no memory
  host,    ///< a host function runs instead; without one, the launch fails
};

struct Config {
  /// Devices; 1 to 64.
  int devices = 1;
  /// Bytes of each device, "80GiB" for all devices or "80GiB/40GiB" for each; granularity to 16
  /// TiB.
  std::vector<std::uint64_t> memory = {80_GiB};
  /// When work runs.
  Progress progress = Progress::eager;
  /// Seed of the random scheduler, of jitter, and of random faults; any 64-bit number.
  std::uint64_t seed = 1;
  /// In virtual time, the maximum deviation of the duration of work, in percent; 0 to 90.
  int jitter_percent = 0;
  /// The devices' name; 1 to 64 characters without comma.
  std::string name = "Simulated GPU";
  /// Bytes of one granule of physical memory; a power of two, 4 KiB to 1 GiB.
  std::uint64_t granularity = 2_MiB;
  /// Whether virtual memory management is supported; off: its functions return
  /// CUDA_ERROR_NOT_SUPPORTED.
  bool vmm = true;
  /// Whether other machines can import memory by fabric handles.
  bool fabric = false;
  /// Whether network cards can access device memory (GPUDirect RDMA).
  bool rdma = false;
  /// Whether devices can access each other's memory.
  bool peer = true;
  /// The result of cuDriverGetVersion, 1000 * major + 10 * minor; 11040 to 99990. Functions of
  /// later versions are found neither by cuGetProcAddress nor by a Runtime.
  int driver_version = 13000;
  /// Bytes of host memory that can be pinned; 0 to 16 TiB.
  std::uint64_t host_memory = 64_GiB;
  /// The device numbering.
  DeviceOrder order = DeviceOrder::pci;
  /// Milliseconds that a host call waits for a value that no pending work writes
  /// (cuStreamWaitValue) before the wait is reported and its context fails; 1 to 3600000.
  int stall_ms = 10000;
  /// Milliseconds without a driver call after which pending work runs nevertheless, in the random
  /// and the timed mode; 0 to 3600000, 0 for never. "auto", nullopt here: 250, but never for the
  /// Simulator of a test, whose calls and seed alone are to determine the order.
  std::optional<int> silence_ms = std::nullopt;
  /// Whether new memory starts with a page of 0xA5, so that code that assumes zeros fails.
  bool poison = true;
  /// The size in bytes from which a registration of host memory fails, as with current drivers.
  /// Source: vllm-project/vllm, issue 51081.
  std::uint64_t registration_limit = 512_GiB;
  /// The NUMA node closest to each device, "0" for all devices or "0/1" for each; 0 to 1023, or
  /// "none", -1 here, for a machine without NUMA.
  std::vector<int> numa = {0};
  /// Whether devices access registered host memory at its own address, as all current ones do.
  bool same_host_address = true;
  /// How devices access pageable memory. With host_page_tables a copy accesses pageable memory when
  /// the stream reaches the copy; CUDA does not specify this ("might be synchronous").
  PageableAccess pageable_access = PageableAccess::none;
  /// The calls that fail; the syntax is in fault_plan.hpp.
  FaultPlan faults;
  /// "on", "off", or a selection of race, aliasing, leak and fault, such as "race/leak".
  Checks checks;
  /// The effect of a finding. Ignored by a test's Simulator.
  OnFinding on_finding = OnFinding::report;
  /// Whether findings contain the call sites; a call that submits work takes longer.
  bool call_sites = false;
  /// Whether a wait of one host thread orders the other threads, too.
  HostThreads threads = HostThreads::together;
  /// "off"; "on": events are logged for Simulator::event_log(), or to standard error in a program
  /// without a Simulator; otherwise the name of a log file. 1 to 4096 characters without comma.
  std::string log = "off";
  /// Devices in MIG mode, "0:2" for two instances of device 0; 0 to 7 instances for each device.
  MigDevices mig = {};
  /// Hardware channels shared by the streams of a context; 1 to 32, "off", 0 here, for a channel
  /// for each stream. "auto", nullopt here: the value of CUDA_DEVICE_MAX_CONNECTIONS when the
  /// simulator is created, or 8. With a number in random mode, the seed assigns the channels;
  /// otherwise streams take them in turn.
  std::optional<int> connections = std::nullopt;
  /// The number of operations in a stream at which a call that submits another blocks; 1 to
  /// 1048576, or "off", 0 here, for no limit. NVIDIA documents no number; the default is what
  /// hardware was seen to take (NVIDIA forum, topic 68937).
  int queue_entries = 1024;
  /// Whether a waiting call blocks calls of other threads in its context.
  bool driver_lock = false;
  /// Which calls that submit to a stream wait for it. "auto", nullopt here: `work` if
  /// CUDA_LAUNCH_BLOCKING is 1 when the simulator is created, otherwise `none`.
  std::optional<LaunchBlocking> launch_blocking = std::nullopt;
  /// Whether the stream memory operations (cuStreamWaitValue32 and the like) are supported, "on"
  /// for all devices or "on/off" for each; off: they return CUDA_ERROR_NOT_SUPPORTED, and the
  /// device attributes report 0. MIG instances are as their device.
  std::vector<bool> memory_operations = {true};
  /// The effect of a kernel launch.
  Kernels kernels = Kernels::refuse;

  /// Devices and instances together.
  [[nodiscard]] int places() const;
  /// Bytes of the device in slot `physical`.
  [[nodiscard]] std::uint64_t memory_of(int physical) const;

  /// The NUMA node of the device in slot `physical`.
  [[nodiscard]] int numa_of(int physical) const;

  /// Whether the device in slot `physical` supports stream memory operations.
  [[nodiscard]] bool memory_operations_of(int physical) const;

  /// Keys in any order, each at most once; missing keys keep their defaults; empty text is valid.
  /// Errors InvalidArgument that names the entry and the accepted values.
  static Config parse(std::string_view text);
  /// All keys; parse() returns the same Config.
  [[nodiscard]] std::string to_text() const;
  /// As a Simulator takes it.
  operator std::string() const { return to_text(); }  // NOLINT: implicit by design

  bool operator==(const Config&) const = default;
};

}  // namespace berth::sim
