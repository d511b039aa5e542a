// SPDX-License-Identifier: Apache-2.0
// The one object that owns everything: what a framework embeds.
#pragma once

#include <cstddef>
#include <functional>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>

#include "berth/collectives.hpp"
#include "berth/completion_queue.hpp"
#include "berth/copier.hpp"
#include "berth/current_stream.hpp"
#include "berth/device_allocator.hpp"
#include "berth/device_registry.hpp"
#include "berth/event_pool.hpp"
#include "berth/export.h"
#include "berth/fork_join.hpp"
#include "berth/host_allocator.hpp"
#include "berth/pinned_allocator.hpp"
#include "berth/report.hpp"
#include "berth/statistics.hpp"
#include "berth/stream_pool.hpp"

namespace berth {

/// What the code asks for. The environment variable BERTH_CONF ("reserved_bytes_max=90%", as
/// configure() reads it) is applied over it by Runtime's constructor: who runs a program has the
/// last word over who wrote it.
struct RuntimeOptions {
  /// Which driver: `cuda` (libcuda.so.1), `sim` (the simulated driver, configured by BERTH_SIM),
  /// `auto` (cuda where it has a device, else sim), or the path of a driver library. Empty: the
  /// environment variable BERTH_DRIVER, and `cuda` where that is unset too. So BERTH_CONF goes
  /// before the code, and the code before BERTH_DRIVER. The library never turns to the simulator by
  /// itself.
  std::string driver;
  DeviceAllocatorOptions device_allocator;  ///< of every device
  PinnedAllocatorOptions pinned_allocator;
  HostAllocatorOptions host_allocator;
  StreamPoolOptions stream_pool;
  EventPoolOptions event_pool;
  CopierOptions copier;
  /// Whether BERTH_CONF is read at all: false for programs that apply it themselves, or let nobody
  /// from outside have a say.
  bool read_environment = true;
  ReportSink report;  ///< gets warnings, and errors that a destructor had to swallow
};

/// Devices, streams, memory and copies of one driver.
///
/// Without a usable driver a Runtime is made all the same: devices().count() is 0, driver().problem
/// says why, `cpu` works.
///
/// Lifetime  Everything obtained from a Runtime must be gone before it: leases, allocations,
///           owners. A Runtime destroyed while the process exits, when the driver may be gone
///           already, is fine, if no thread uses it any more: where some may, as with a static
///           Runtime and threads that nobody joins, make it with `new` and leave it to the exit.
/// Fork      In a child made by fork() the parts that the parent had made are there, each with its own
///           rule; those that it had not made throw NotSupported. Nothing waits, and the driver is not
///           called.
/// Threads   Safe from any thread. Each device's parts are made by their first use.
class BERTH_API Runtime {
 public:
  /// Errors  InvalidArgument: an option or an environment variable that is out of range or
  ///         malformed.
  explicit Runtime(RuntimeOptions options = {});
  ~Runtime();
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  [[nodiscard]] DriverInfo driver() const;
  /// What is in effect, BERTH_CONF included; `driver` is driver().name.
  [[nodiscard]] const RuntimeOptions& options() const noexcept;
  [[nodiscard]] const DeviceRegistry& devices() const noexcept;

  // The parts of one device. Errors  InvalidArgument: no such device, or `cpu`, whose memory is
  // host_memory().
  [[nodiscard]] StreamPool& streams(Device device);
  [[nodiscard]] EventPool& events(Device device);
  [[nodiscard]] DeviceAllocator& memory(Device device);

  /// Lets work of `user`, kernels and copies, reach the memory of `owner` directly, in this direction: all
  /// that is mapped or allocated there, by berth and by others, now and from now on
  /// (cuCtxEnablePeerAccess, and cuMemSetAccess for what berth maps). Copies between two devices do it by
  /// themselves. Driver calls the first time for the pair; there is no way back.
  /// Errors  InvalidArgument: no such device, `cpu`, or one device twice. NotSupported: the two cannot, as
  ///         DeviceRegistry::peer() says. DriverError: it may reach what is there, and not what comes;
  ///         calling again tries again.
  void enable_peer_access(Device user, Device owner);

  [[nodiscard]] PinnedAllocator& pinned_memory();
  /// The memory of `cpu`.
  [[nodiscard]] HostAllocator& host_memory();
  [[nodiscard]] Copier& copier();
  /// Scatter, gather and broadcast over devices.
  [[nodiscard]] Collectives& collectives();
  /// Callbacks after work on streams. Its thread ends, with all that is outstanding, before anything
  /// else of the Runtime goes.
  [[nodiscard]] CompletionQueue& completions();

  /// Refers to a stream that the framework made, on `device`. Null is the legacy default stream, also
  /// where the caller is compiled so that null means the per-thread one to CUDA. berth does not own the
  /// stream, and uses its handle in calls that name it only: memory freed on it serves other streams
  /// later than that of a Stream does (docs/streams.md, "Streams of the program").
  [[nodiscard]] StreamRef stream(Device device, CUstream_st* native);
  /// The legacy default stream of a device, in NVIDIA's words.
  [[nodiscard]] StreamRef default_stream(Device device) { return stream(device, nullptr); }
  /// StreamRef::per_thread_default(), of whichever thread uses it.
  [[nodiscard]] StreamRef per_thread_default_stream(Device device);
  /// The calling thread's current stream on `device` (StreamGuard).
  [[nodiscard]] StreamRef current_stream(Device device);
  /// A stream of one's own, outside the pool.
  [[nodiscard]] Stream create_stream(Device device, StreamOptions options = {});
  /// A pooled event that marks the work submitted to `stream` so far.
  [[nodiscard]] EventLease record(StreamRef stream);
  /// berth::join() with the events of each stream's device.
  void join(StreamRef waiter, std::span<const StreamRef> streams);
  void join(StreamRef waiter, std::initializer_list<StreamRef> streams);
  /// ForkJoin with the pools of `parent`'s device.
  [[nodiscard]] ForkJoin fork(StreamRef parent, std::size_t count, int priority = 0);

  [[nodiscard]] Statistics statistics() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace berth
