// SPDX-License-Identifier: Apache-2.0
// Handles of other libraries for hire: cuBLAS, cuDNN, cuFFT, cuSOLVER and the like want one that is
// costly to create, belongs to a device, works on one stream at a time and for one thread at a time,
// and needs a workspace.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <new>
#include <string>
#include <type_traits>
#include <utility>

#include "berth/export.h"
#include "berth/handle_store.hpp"
#include "berth/runtime.hpp"
#include "berth/stream.hpp"

namespace berth {

/// What a HandlePool has to know of a library.
///
/// The functions are called without a lock, with the primary context of the handle's device current,
/// and what was current before is so again afterwards, whatever they leave. They may be called on any
/// thread, several at once for different handles. A thread that is inside one may do what disturbs a
/// capture of others (RelaxedCaptureScope), as obtaining memory.
///
/// They say by exceptions what goes wrong, of whatever type, which acquire() passes on as it is.
template <class Handle>
struct HandlePoolOptions {
  /// The library, "cuBLAS": what errors show. Not empty.
  std::string name;

  std::function<Handle()> create;
  /// nullptr: the destructor of Handle does it, which may not throw then. Work that was submitted with
  /// the handle may be pending: libraries wait for it by themselves. What this throws goes to the
  /// report sink.
  std::function<void(Handle& handle)> destroy = nullptr;
  /// Lets the handle submit to `stream` from now on.
  std::function<void(Handle& handle, StreamRef stream)> bind;

  /// Gives the handle device memory to work in, after each bind(): workspace_bytes of the device's
  /// allocator. nullptr with 0 bytes: none.
  std::function<void(Handle& handle, void* workspace, std::size_t bytes)> set_workspace = nullptr;
  std::size_t workspace_bytes = 0;

  /// Whether work of a handle may use device memory that the library keeps in the handle, as the work
  /// area of a plan or the state of a generator. Then a stream to which a handle moves waits for the
  /// work of its last lease, and captured streams are refused: a graph would use that memory at each
  /// launch, while others have the handle. false where the library is told all memory that it works
  /// in, as by cublasSetWorkspace.
  bool keeps_device_memory = true;

  /// Handles of one device that exist at most; 0: no bound, as many as are on lease at once.
  std::size_t handles_max = 0;
  HandleShortage on_shortage = HandleShortage::fail;
};

template <class Handle>
class HandlePool;

/// A handle in use: back to its pool on destruction. Moves; a moved-from lease holds nothing. Goes
/// before its pool and before its stream. Makes no device current: for libraries that work on the
/// calling thread's current device, as NVIDIA's, a StreamGuard or DeviceGuard does.
/// Threads  Like a pointer: one thread at a time. May be destroyed on another thread than it was
///          acquired on.
template <class Handle>
class [[nodiscard]] HandleLease {
 public:
  ~HandleLease() { give_back(); }
  HandleLease(HandleLease&& other) noexcept
      : store_(std::exchange(other.store_, nullptr)), held_(other.held_) {}
  HandleLease& operator=(HandleLease&& other) noexcept {
    if (this != &other) {
      give_back();
      store_ = std::exchange(other.store_, nullptr);
      held_ = other.held_;
    }
    return *this;
  }

  /// Bound to the stream for which it was acquired.
  [[nodiscard]] Handle& get() const noexcept { return *static_cast<Handle*>(held_.handle); }
  operator Handle&() const noexcept { return get(); }  // NOLINT: a lease serves as the handle
  /// The handle's members; of a handle that is a pointer, those of what it points to.
  auto operator->() const noexcept {
    if constexpr (std::is_pointer_v<Handle>) {
      return get();
    } else {
      return &get();
    }
  }

 private:
  friend class HandlePool<Handle>;
  HandleLease(HandleStore& store, HandleStore::Held held) noexcept : store_(&store), held_(held) {}
  void give_back() noexcept {
    if (store_ != nullptr) std::exchange(store_, nullptr)->give_back(*held_.item);
  }

  HandleStore* store_;
  HandleStore::Held held_;
};

/// The handles of one library, on all devices of a Runtime. `Handle` is what the library calls one: a
/// pointer, a number, or a movable type of one's own.
///
/// A handle is created when none is idle, and kept until trim() or the end of the pool: in steady
/// state nothing is created and nothing destroyed. No two leases share one.
///
/// Workspace  Each handle has one, allocated on the stream that it is bound to. Where a handle moves to
///            another stream, its workspace is freed on the old one, and one is allocated on the new
///            one: the allocator sees to the order. Work that is pending is no hindrance.
/// Capture    On a stream that is being captured a lease has a workspace of its own, allocated as
///            captured work allocates, from a pool for graphs (docs/pools.md), and freed there when
///            the lease ends: so within a capture leases share it in the order of the stream, and
///            nothing outside of the graph gets it. The handle's ordinary workspace is not used. So a
///            lease is acquired and ends within the capture, and one that was acquired before is not
///            used in it. Where a library forbids to create a handle during a capture, acquire and
///            give back one before; as many as leases are held at once.
/// Streams    One that berth does not own is told to retire_stream() before it is destroyed, as with
///            allocators. For a later stream of the same handle a library's handle is bound anew.
/// Lifetime   Made after the Runtime and destroyed before it, while no stream of its devices is being
///            destroyed. Where the driver has shut down already, as it may have when the process
///            exits, handles are left alone. A library that is itself gone by then cannot be noticed:
///            make a pool that should last as long as the process with `new`, and leave it to the exit.
/// Threads    Safe from any thread; from inside the library's functions, too.
/// Fork       In a child made by fork() nothing reaches the library: acquire(), trim() and counters()
///            fail with NotSupported; giving back and destructors do nothing.
template <class Handle>
class HandlePool {
 public:
  /// Calls no driver and no library.
  /// Errors  InvalidArgument: an option out of range.
  HandlePool(Runtime& runtime, HandlePoolOptions<Handle> options)
      : store_(parts_of(runtime), without_type(std::move(options))) {}

  /// A handle that is bound to `stream`. Of those that are idle, one that is bound to it already: no
  /// function of the library is called then. Otherwise another one of the device, that which has been
  /// idle longest, which is bound anew; otherwise a new one.
  ///
  /// Stream    What the handle submits from now on follows what `stream` holds.
  /// Blocking  Waits for other threads only where HandleShortage::wait says so, and for the GPU only
  ///           where the library or the allocation of a workspace does. With a workspace or
  ///           keeps_device_memory it asks the driver whether `stream` is being captured. The end of a
  ///           lease records an event where keeps_device_memory, and calls no driver otherwise.
  /// Errors    InvalidArgument: a stream of another Runtime, the per-thread default stream, or a
  ///           workspace for captured work without a pool for graphs. StreamCaptured: for a captured
  ///           stream, where keeps_device_memory; the legacy default stream, while a stream that waits
  ///           for it is captured. Exhausted: HandleShortage::fail. OutOfMemory, DriverError. Whatever
  ///           the library's functions throw: a handle whose bind() or set_workspace() has failed is
  ///           destroyed, so that the next call has another one.
  [[nodiscard]] HandleLease<Handle> acquire(StreamRef stream) {
    return {store_, store_.acquire(stream)};
  }

  /// Destroys the handles that are idle, with their workspaces. Returns how many. May be called where
  /// memory is short (DeviceAllocatorOptions::on_pressure). Not while work of a device is captured, if
  /// destroy() waits for the device: that would break the capture.
  /// Blocking  As destroy() does. Other threads acquire meanwhile.
  std::size_t trim() { return store_.trim(); }

  /// To be called before a stream that berth does not own is destroyed. Its leases have ended.
  void retire_stream(StreamRef stream) noexcept { store_.retire_stream(stream); }

  [[nodiscard]] HandleCounters counters() const { return store_.counters(); }

 private:
  /// Room for a handle apart from its life: a handle that is left alone is never destroyed.
  using Room = std::allocator<Handle>;

  static void* create(const std::function<Handle()>& make) {
    Handle* const room = Room().allocate(1);
    try {
      return ::new (static_cast<void*>(room)) Handle(make());
    } catch (...) {
      Room().deallocate(room, 1);
      throw;
    }
  }
  static void abandon(void* handle) { Room().deallocate(static_cast<Handle*>(handle), 1); }
  static Handle& typed(void* handle) { return *static_cast<Handle*>(handle); }

  static HandleStoreParts parts_of(Runtime& runtime) {
    return {
        .context = [&runtime](Device device) -> DeviceContext& {
          return runtime.default_stream(device).context();
        },
        .memory = [&runtime](Device device) -> DeviceAllocator& { return runtime.memory(device); },
        .events = [&runtime](Device device) -> EventPool& { return runtime.events(device); }};
  }

  static HandleStoreOptions without_type(HandlePoolOptions<Handle> options) {
    HandleStoreOptions untyped{.name = std::move(options.name),
                               .create = nullptr,
                               .destroy = nullptr,
                               .abandon = &HandlePool::abandon,
                               .bind = nullptr,
                               .set_workspace = nullptr,
                               .workspace_bytes = options.workspace_bytes,
                               .keeps_device_memory = options.keeps_device_memory,
                               .handles_max = options.handles_max,
                               .on_shortage = options.on_shortage};
    if (options.create) {
      untyped.create = [make = std::move(options.create)] { return create(make); };
    }
    untyped.destroy = [destroy = std::move(options.destroy)](void* handle) {
      struct End {
        Handle* handle;
        ~End() {
          handle->~Handle();
          abandon(handle);
        }
      } const end{&typed(handle)};
      if (destroy) destroy(*end.handle);
    };
    if (options.bind) {
      untyped.bind = [bind = std::move(options.bind)](void* handle, StreamRef stream) {
        bind(typed(handle), stream);
      };
    }
    if (options.set_workspace) {
      untyped.set_workspace = [set = std::move(options.set_workspace)](
                                  void* handle, void* workspace, std::size_t bytes) {
        set(typed(handle), workspace, bytes);
      };
    }
    return untyped;
  }

  HandleStore store_;
};

}  // namespace berth
