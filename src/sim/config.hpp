// SPDX-License-Identifier: Apache-2.0
// What is simulated: one value, from text such as "devices=2,memory=80GiB,progress=random,seed=7".
// A Config that parse() returned is within the ranges below; the Simulator relies on it.
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
  random,  ///< a seeded choice among what may run, made at every driver call
  timed,   ///< in virtual time, which calls and work take as the cost model says
};

/// How the devices are numbered where CUDA_DEVICE_ORDER does not say PCI_BUS_ID.
enum class DeviceOrder {
  pci,      ///< as NVML numbers them
  reverse,  ///< the other way round, as if the fastest device sat in the last slot
};

/// As CUDA_DEVICE_MAX_CONNECTIONS has it.
inline constexpr int kConnectionsMax = 32;
inline constexpr int kConnectionsDefault = 8;

/// What the race detector takes for ordered, of what host threads do: it cannot see their locks.
enum class HostThreads {
  together,  ///< what one thread has waited for is done for all of them
  apart,     ///< for itself alone, and for whom it tells
};

/// How devices get at pageable memory of the host.
/// Source: CUDA C++ Programming Guide, "Unified Memory Programming", on its levels of support.
enum class PageableAccess {
  none,              ///< not at all: the driver stages it
  page_faults,       ///< by faults, as with HMM on x86; copies are staged all the same
  host_page_tables,  ///< as at pinned memory, as on Grace Hopper: copies are asynchronous
};

/// What is looked for. What makes no progress is always reported, since it changes what calls do.
struct Checks {
  Checks(bool all = true) : races(all), aliasing(all), leaks(all) {}  // NOLINT: on or off

  [[nodiscard]] bool any_use() const { return races || aliasing; }
  /// Whether a finding that begins with `kind` is asked for.
  [[nodiscard]] bool wants(std::string_view kind) const;
  explicit operator bool() const { return any_use() || leaks; }
  bool operator==(const Checks&) const = default;

  bool races;
  bool aliasing;
  bool leaks;
};

/// What happens at a finding of a program that runs without a test.
enum class OnFinding {
  report,  ///< the program goes on
  abort,   ///< it ends, by abort()
};

/// What becomes of launches of kernels, whose code is not run.
enum class Kernels {
  refuse,  ///< they fail
  skip,    ///< they take their place in their streams, and touch nothing
  host,    ///< host functions stand in for them; where there is none, they fail
};

struct Config {
  /// Devices; 1 to 64.
  int devices = 1;
  /// Bytes of each device, "80GiB" for all or one a device, "80GiB/40GiB"; granularity to 16 TiB.
  std::vector<std::uint64_t> memory = {80_GiB};
  /// When work runs.
  Progress progress = Progress::eager;
  /// Seed of the random scheduler, of jitter, and of faults by chance; any 64-bit number.
  std::uint64_t seed = 1;
  /// In virtual time, each piece of work takes up to that many percent less or more; 0 to 90.
  int jitter_percent = 0;
  /// The devices' name; 1 to 64 characters without comma.
  std::string name = "Simulated GPU";
  /// Bytes of one granule of physical memory; a power of two, 4 KiB to 1 GiB.
  std::uint64_t granularity = 2_MiB;
  /// Whether virtual memory management is offered; off: its functions say CUDA_ERROR_NOT_SUPPORTED.
  bool vmm = true;
  /// Whether devices can access each other's memory.
  bool peer = true;
  /// The result of cuDriverGetVersion, 1000 * major + 10 * minor; 11040 to 99990. Functions that
  /// came later are not found, by cuGetProcAddress or by a Runtime.
  int driver_version = 13000;
  /// Bytes of host memory that can be pinned; 0 to 16 TiB.
  std::uint64_t host_memory = 64_GiB;
  /// The device numbering.
  DeviceOrder order = DeviceOrder::pci;
  /// Milliseconds that a host call waits for a value that nothing pending brings
  /// (cuStreamWaitValue) before the wait is reported and its context fails; 1 to 3600000.
  int stall_ms = 10000;
  /// Whether fresh memory starts with a page of 0xA5, so that code that hopes for zeros fails.
  bool poison = true;
  /// Bytes from which on one registration of host memory fails, as a current driver does.
  /// Source: vllm-project/vllm, issue 51081.
  std::uint64_t registration_limit = 512_GiB;
  /// The NUMA node of the machine that each device is closest to, "0" for all or one a device,
  /// "0/1"; 0 to 1023, or "none", -1 here, for a machine without NUMA.
  std::vector<int> numa = {0};
  /// Whether devices reach registered host memory at its own address, as all current ones do.
  bool same_host_address = true;
  /// How devices access pageable memory. With host_page_tables a copy reads and writes it when the
  /// stream reaches the copy, which CUDA leaves open ("might be synchronous").
  PageableAccess pageable_access = PageableAccess::none;
  /// Which calls go wrong; fault_plan.hpp says how that is written.
  FaultPlan faults;
  /// "on", "off", or what is looked for, "race/leak" of race, aliasing and leak.
  Checks checks;
  /// After a finding. A Simulator of a test ignores it.
  OnFinding on_finding = OnFinding::report;
  /// Whether findings name the code that made the calls; a call that submits work takes longer.
  bool call_sites = false;
  /// Whether what one host thread has waited for counts for the others too.
  HostThreads threads = HostThreads::together;
  /// "off"; "on": what happens is written down, for Simulator::event_log(); otherwise the name of a
  /// file to write it to. 1 to 4096 characters without comma.
  std::string log = "off";
  /// Devices that MIG has split, "0:2" for two instances of device 0; 0 to 7 instances a device.
  MigDevices mig = {};
  /// Hardware channels that the streams of a context share; 1 to 32, "off", 0 here, for a channel
  /// for each stream. "auto", nullopt here: as CUDA_DEVICE_MAX_CONNECTIONS says when the simulator
  /// is made, or 8. A number in the random mode deals the channels out by the seed, all else in
  /// turn.
  std::optional<int> connections = std::nullopt;
  /// Operations that a stream holds before a call that submits another blocks; 1 to 1048576, or
  /// "off", 0 here, for any number.
  int queue_entries = 0;
  /// Whether a call that waits keeps the other threads' calls in its context waiting.
  bool driver_lock = false;
  /// Whether a call that submits work returns only when that is done. "auto", nullopt here: as
  /// CUDA_LAUNCH_BLOCKING says when the simulator is made.
  std::optional<bool> launch_blocking = std::nullopt;
  /// Whether the stream memory operations (cuStreamWaitValue32 and the like) are offered; off: they
  /// say CUDA_ERROR_NOT_SUPPORTED, and the device attributes deny them.
  bool memory_operations = true;
  /// What a launch of a kernel does.
  Kernels kernels = Kernels::refuse;

  /// Devices and instances together.
  [[nodiscard]] int places() const;
  /// Bytes of the device in slot `physical`.
  [[nodiscard]] std::uint64_t memory_of(int physical) const;

  /// The NUMA node of the device in slot `physical`.
  [[nodiscard]] int numa_of(int physical) const;

  /// Keys in any order, each at most once; what is left out keeps its default; empty text is valid.
  /// Errors  InvalidArgument that names the entry, and what is accepted.
  static Config parse(std::string_view text);
  /// Every key; parse() gives the same Config back.
  [[nodiscard]] std::string to_text() const;
  /// As a Simulator takes it.
  operator std::string() const { return to_text(); }  // NOLINT: implicit by design

  bool operator==(const Config&) const = default;
};

}  // namespace berth::sim
