// SPDX-License-Identifier: Apache-2.0
// The Runtime: the object that a framework embeds, which owns all other parts of berth.
#pragma once

#include <cstddef>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "berth/collectives.hpp"
#include "berth/completion_queue.hpp"
#include "berth/copier.hpp"
#include "berth/current_stream.hpp"
#include "berth/device_allocator.hpp"
#include "berth/device_backend.hpp"
#include "berth/device_buffer.hpp"
#include "berth/device_registry.hpp"
#include "berth/event_pool.hpp"
#include "berth/export.h"
#include "berth/fork_join.hpp"
#include "berth/host_allocator.hpp"
#include "berth/memory_connection.hpp"
#include "berth/pinned_allocator.hpp"
#include "berth/pjrt.hpp"
#include "berth/report.hpp"
#include "berth/statistics.hpp"
#include "berth/stream_pool.hpp"

struct berth_runtime;

namespace berth {

/// The options of a Runtime. Runtime's constructor applies the environment variable BERTH_CONF
/// ("bytes_reserved_max=90%", as configure() reads it) over them, because the user of a program
/// takes precedence over its author.
struct RuntimeOptions {
  /// The driver: `cuda` (libcuda.so.1), `sim` (the simulated driver in libberth_sim, configured by
  /// BERTH_SIM), `auto` (cuda if it has a device, else sim if it is installed), or the path of a
  /// driver library. Empty: the environment variable BERTH_DRIVER, or `cuda` if that is not set. So
  /// BERTH_CONF overrides the code, and the code overrides BERTH_DRIVER. The library never selects
  /// the simulator by itself.
  std::string driver = {};
  DeviceAllocatorOptions device_allocator = {};  ///< of every device
  PinnedAllocatorOptions pinned_allocator = {};
  HostAllocatorOptions host_allocator = {};
  StreamPoolOptions stream_pool = {};
  EventPoolOptions event_pool = {};
  CopierOptions copier = {};
  /// Plug-ins whose devices the Runtime registers. If a plug-in cannot be used, its type has no
  /// devices; DeviceRegistry::backend_problem() and a warning to the report sink have the reason.
  std::vector<PjrtPlugin> pjrt = {};
  /// Whether BERTH_CONF is read. false: for programs that apply it themselves, or that do not allow
  /// changes from outside.
  bool read_environment = true;
  /// Receives warnings, and errors that a destructor cannot throw. Empty: reports are dropped.
  ReportSink report = {};
};

/// The owner of the devices, streams, memory and copies of one driver, and of the backends of other
/// device types.
///
/// A Runtime can be created without a usable driver: devices().count() is 0, driver().problem has
/// the reason, and `cpu` works.
///
/// Lifetime  Leases, allocations, owners and everything else obtained from a Runtime must be
///           destroyed before it. Its end reports what is still alive, by kind and number:
///           allocations, registrations, memory pools, leases, streams, graphs, and guards of its
///           thread. It closes the pools and ends the guards, so that their later destructors have
///           no effect; later destructors of the other objects are undefined behavior. A Runtime
///           may be destroyed during process exit, when the driver may already be gone, if no
///           thread uses it any more. If threads may still use it, as with a static Runtime and
///           threads that are not joined, create it with `new` and do not destroy it.
/// Exit      Functions registered with atexit() and destructors of static objects may call a
///           Runtime that still exists. After the driver has shut down, calls that need it throw
///           DriverError (CUDA_ERROR_DEINITIALIZED), and frees and destructors do nothing.
/// Signals   No berth function, destructors included, may be called in a signal handler: they lock,
///           allocate and call the driver. Let a handler set a flag.
/// Fork      In a child made by fork(), the parts that the parent had created exist, each with its
///           own rule; other parts throw NotSupported. No call waits or calls the driver.
/// Threads   Safe from any thread. Each device's parts are created by their first use.
class BERTH_API Runtime {
 public:
  /// Blocking  As long as the plug-ins of RuntimeOptions::pjrt take: open_pjrt().
  /// Errors    InvalidArgument: an option or an environment variable is out of range or malformed.
  explicit Runtime(RuntimeOptions options = {});
  /// Blocking  Waits for outstanding callbacks, for copies through staging memory, for transfers of
  ///           backends, and for the work of devices on which memory was allocated.
  ~Runtime();
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  /// The driver: its name and version, and why it is not usable.
  [[nodiscard]] DriverInfo driver() const;
  /// The address of a driver function that berth does not wrap, for modules, kernel launches and
  /// graphs. `name` has no version suffix ("cuLaunchKernel"). The function has the ABI of CUDA
  /// `version`, for example 12020 for 12.2. It belongs to the driver that berth itself calls, which
  /// may be the simulated one. Its calls are not in statistics(). null if the driver is not usable,
  /// is older than `version`, or lacks the function, and in a forked child.
  /// Errors  InvalidArgument: null.
  [[nodiscard]] void* driver_function(const char* name, int version) const;
  /// The options in effect, including BERTH_CONF; `driver` is driver().name.
  [[nodiscard]] const RuntimeOptions& options() const noexcept;
  /// The devices of the driver.
  [[nodiscard]] const DeviceRegistry& devices() const noexcept;

  /// Gives the devices of a type other than `cpu` and `cuda` an implementation, until the Runtime
  /// ends: DeviceRegistry, DeviceMap, buffers() and statistics() then serve them.
  /// Errors  As DeviceRegistry::register_backend().
  void register_backend(DeviceType type, std::unique_ptr<DeviceBackend> backend);
  /// register_backend() with the name of a type, which is registered if it does not exist.
  /// Errors  Also the errors of DeviceType::register_name().
  void register_backend(std::string_view type, std::unique_ptr<DeviceBackend> backend);
  /// register_backend() with the devices of a PJRT plug-in: open_pjrt().
  /// Blocking  As open_pjrt(): some plug-ins take minutes.
  /// Errors    Also those of open_pjrt(); a refusal of the plug-in names the variables of the
  ///           environment that select devices of this type. The type has no devices then, and the
  ///           call may be repeated.
  void register_pjrt(std::string_view type, const std::string& path,
                     std::vector<PjrtOption> options = {});
  /// Buffers on the devices of backends.
  [[nodiscard]] DeviceBuffers& buffers();

  // The parts of one device. Errors  InvalidArgument: no such device; `cpu`, whose allocator is
  // host_memory(); a device of a backend, whose memory is buffers().
  [[nodiscard]] StreamPool& streams(Device device);
  [[nodiscard]] EventPool& events(Device device);
  [[nodiscard]] DeviceAllocator& memory(Device device);

  /// Lets kernels and copies of `user` access the memory of `owner` directly, in this direction
  /// only: all memory that is mapped or allocated there, by berth and by other code, now and in the
  /// future (cuCtxEnablePeerAccess, and cuMemSetAccess for memory that berth maps). Copies between
  /// two devices do this automatically. Makes driver calls only the first time for the pair. It
  /// cannot be undone.
  /// Errors  InvalidArgument: no such device, `cpu`, or the same device twice; new access inside
  ///         DeviceAllocatorOptions::on_map or on_unmap. NotSupported: the devices have no peer
  ///         access, as DeviceRegistry::peer() reports. DriverError: `user` may have access to
  ///         existing memory, but not to future memory; call again to retry.
  void enable_peer_access(Device user, Device owner);

  /// The allocator of pinned host memory.
  [[nodiscard]] PinnedAllocator& pinned_memory();
  /// The allocator of `cpu`.
  [[nodiscard]] HostAllocator& host_memory();
  /// The live block that contains `data`: its allocator, device, start and size. nullopt if `data`
  /// is in no such block, as for memory of other libraries and for registered memory
  /// (PinnedAllocator::find()). Searches the devices that have allocated, then pinned memory, then
  /// memory of `cpu`. No driver call. For a moment, no other thread allocates or frees there: not
  /// for hot paths.
  /// Errors  NotSupported: in a forked child, if devices have allocated.
  [[nodiscard]] std::optional<MemoryBlock> find(const void* data);
  /// A connection to another process, over which device memory is shared.
  /// Errors  As MemoryConnection's constructor.
  [[nodiscard]] MemoryConnection connect_memory(int socket) const;
  /// Copies between host memory, devices and files.
  [[nodiscard]] Copier& copier();
  /// Scatter, gather and broadcast over devices.
  [[nodiscard]] Collectives& collectives();
  /// Callbacks after work on streams. Its outstanding callbacks run, and its thread ends, before
  /// any other part of the Runtime is destroyed.
  [[nodiscard]] CompletionQueue& completions();

  /// Refers to a stream that the framework created on `device`. null is the legacy default stream,
  /// even in code that is compiled with the per-thread default stream as CUDA's null stream. berth
  /// does not own the stream, and uses its handle only in calls that name it: memory freed on it
  /// serves other streams later than memory of a Stream does (docs/streams.md, "Streams of the
  /// program").
  [[nodiscard]] StreamRef stream(Device device, CUstream_st* native);
  /// The legacy default stream of a device.
  [[nodiscard]] StreamRef default_stream(Device device) { return stream(device, nullptr); }
  /// StreamRef::per_thread_default(), which is the stream of the thread that uses it.
  [[nodiscard]] StreamRef per_thread_default_stream(Device device);
  /// The calling thread's current stream on `device` (StreamGuard).
  [[nodiscard]] StreamRef current_stream(Device device);
  /// Creates a stream outside the pool, which the caller owns.
  /// Errors  InvalidArgument: no such device, or an option out of range. DriverError.
  [[nodiscard]] Stream create_stream(Device device, StreamOptions options = {});
  /// Records a pooled event after the work submitted to `stream` so far. For elapsed_ms(), with
  /// {.timing = true}.
  /// Errors  Those of EventPool::acquire() and EventRef::record(). No event is on lease then.
  [[nodiscard]] EventLease record(StreamRef stream, EventOptions options = {});
  /// berth::join() with the events of each stream's device.
  void join(StreamRef waiter, std::span<const StreamRef> streams);
  void join(StreamRef waiter, std::initializer_list<StreamRef> streams);
  /// ForkJoin with the pools of `parent`'s device.
  [[nodiscard]] ForkJoin fork(StreamRef parent, std::size_t count, int priority = 0);

  /// The driver, the devices, each allocator with all blocks, driver calls and copies.
  [[nodiscard]] Statistics statistics() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// The Runtime of a handle of the C ABI (berth_runtime_create()), so that C++, C and other
/// languages in one process share its memory. berth_runtime_destroy() ends it.
/// Errors  InvalidArgument: null.
[[nodiscard]] BERTH_API Runtime& runtime_of(berth_runtime* handle);

}  // namespace berth
