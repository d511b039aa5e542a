// SPDX-License-Identifier: Apache-2.0
// Pools of other libraries' handles. A handle of cuBLAS, cuDNN, cuFFT, cuSOLVER or a similar
// library is expensive to create, belongs to one device, works on one stream and for one thread at
// a time, and needs a workspace.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <new>
#include <string>
#include <type_traits>
#include <utility>

#include "berth/detail/handle_store.hpp"
#include "berth/error.hpp"
#include "berth/export.h"
#include "berth/handle_counters.hpp"
#include "berth/runtime.hpp"
#include "berth/stream.hpp"

namespace berth {

/// The functions and properties of a library for a HandlePool.
///
/// The functions are called without a lock, with the primary context of the handle's device
/// current. The previous context is restored afterwards, whichever context they leave current. They
/// may be called on any thread, and several concurrently for different handles. They run in a
/// RelaxedCaptureScope, so they may, for example, allocate memory without disturbing the captures
/// of other threads.
///
/// They report errors by exceptions of any type, which acquire() rethrows unchanged.
template <class Handle>
struct HandlePoolOptions {
  /// The library's name in errors, such as "cuBLAS". Not empty.
  std::string name;

  std::function<Handle()> create;
  /// Destroys a handle. nullptr: the destructor of Handle does it, and must not throw. Work
  /// submitted with the handle may be pending, and the library must wait for it itself. An
  /// exception goes to the report sink.
  std::function<void(Handle& handle)> destroy = nullptr;
  /// Makes the handle submit to `stream` from now on.
  std::function<void(Handle& handle, StreamRef stream)> bind;

  /// Gives the handle device memory to work in, after each bind(): workspace_bytes of the device's
  /// allocator. nullptr together with workspace_bytes of 0: no workspace.
  std::function<void(Handle& handle, void* workspace, std::size_t bytes)> set_workspace = nullptr;
  std::size_t workspace_bytes = 0;

  /// Whether work of a handle may use device memory that the library keeps in the handle, such as
  /// the work area of a plan or the state of a generator. true: a stream to which a handle moves
  /// waits for the work of its previous lease, and captured streams are refused, because each
  /// launch of the graph would use that memory while other leases have the handle. false: the
  /// library uses only memory that it is given, as by cublasSetWorkspace.
  bool keeps_device_memory = true;

  /// Maximum number of handles of one device. 0: no bound; as many as are on lease at the same
  /// time.
  std::size_t handles_max = 0;
  HandleShortage on_shortage = HandleShortage::fail;
};

template <class Handle>
class HandlePool;

/// A lease of a handle; its destructor returns the handle to the pool. Movable. Empty if
/// default-constructed or moved from. Must be destroyed before its pool and before its stream. It
/// does not make a device current: for libraries that work on the calling thread's current device,
/// as NVIDIA's do, use a StreamGuard or DeviceGuard.
/// Threads  One thread at a time. May be destroyed on another thread than it was acquired on.
template <class Handle>
class [[nodiscard]] HandleLease {
 public:
  /// Empty.
  HandleLease() noexcept = default;
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

  /// Whether it holds a handle.
  explicit operator bool() const noexcept { return store_ != nullptr; }
  /// The handle, bound to the stream that it was acquired for.
  /// Errors  InvalidArgument: empty; also of the functions below.
  [[nodiscard]] Handle& get() const {
    if (store_ == nullptr) detail::refuse_empty("lease");
    return *static_cast<Handle*>(held_.handle);
  }
  operator Handle&() const { return get(); }  // NOLINT: a lease serves as the handle
  /// Accesses the handle's members, or for a handle that is a pointer, those of its target.
  auto operator->() const {
    if constexpr (std::is_pointer_v<Handle>) {
      return get();
    } else {
      return &get();
    }
  }

 private:
  friend class HandlePool<Handle>;
  HandleLease(detail::HandleStore& store, detail::HandleStore::Held held) noexcept
      : store_(&store), held_(held) {}
  void give_back() noexcept {
    if (store_ != nullptr) std::exchange(store_, nullptr)->give_back(*held_.item);
  }

  detail::HandleStore* store_ = nullptr;
  detail::HandleStore::Held held_ = {};
};

/// A pool of the handles of one library, on all devices of a Runtime. `Handle` is the library's
/// handle type: a pointer, a number, or your own movable type.
///
/// A handle is created when none is idle, and kept until trim() or the end of the pool. In steady
/// state none are created or destroyed. No two leases share a handle.
///
/// Workspace  Each handle has one, allocated on the stream that it is bound to. When a handle moves
///            to another stream, its workspace is freed on the old stream and a new one is
///            allocated on the new stream. The allocator keeps the order, so work may be pending.
/// Captures   On a captured stream, a lease has its own workspace, allocated as captured work
///            allocates, from a pool for graphs (docs/pools.md), and freed there when the lease
///            ends. So leases within a capture share it in stream order, and code outside the graph
///            never receives it. The handle's ordinary workspace is not used. A lease must be
///            acquired and end within the capture, and a lease that was acquired before must not be
///            used in it. If a library cannot create a handle during a capture, first acquire and
///            release as many leases as the capture will hold at the same time.
/// Stream     For a stream that berth does not own, call retire_stream() before it is destroyed, as
///            with allocators. For a later stream with the same address, library handles are bound
///            again.
/// Lifetime   Create it after the Runtime and destroy it before, while no stream of its devices is
///            being destroyed. If the driver has already shut down, as it may have at process exit,
///            handles are not destroyed. A library that has been unloaded by then cannot be
///            detected: create a pool that should last as long as the process with `new`, and do
///            not destroy it.
/// Threads    Safe from any thread, also from inside the library's functions.
/// Fork       In a child made by fork(), the library is never called: acquire(), trim() and
///            counters() throw NotSupported; returning and destructors have no effect.
template <class Handle>
class HandlePool {
 public:
  /// Makes no driver call and no library call.
  /// Errors  InvalidArgument: an option out of range.
  HandlePool(Runtime& runtime, HandlePoolOptions<Handle> options)
      : store_(parts_of(runtime), without_type(std::move(options))) {}

  /// Leases a handle that is bound to `stream`. An idle handle that is already bound to it is
  /// preferred, and needs no library call. Otherwise another idle handle of the device is bound to
  /// `stream`, the one that has been idle longest. Otherwise a new handle is created.
  ///
  /// Stream    Work that the handle submits from now on follows the work that `stream` holds.
  /// Blocking  Waits for other threads only with HandleShortage::wait, and for the GPU only if the
  ///           library or the allocation of a workspace does. With a workspace or
  ///           keeps_device_memory it makes a capture query for `stream`. The end of a lease
  ///           records an event if keeps_device_memory, and makes no driver call otherwise.
  /// Errors    InvalidArgument: a stream of another Runtime, the per-thread default stream, or a
  ///           workspace for captured work without a pool for graphs. StreamCaptured: a captured
  ///           stream, if keeps_device_memory; or the legacy default stream, while a stream that
  ///           waits for it is captured. Exhausted: HandleShortage::fail. OutOfMemory, DriverError.
  ///           Exceptions of the library's functions: if bind() or set_workspace() failed, the
  ///           handle is destroyed, and the next call gets another one.
  [[nodiscard]] HandleLease<Handle> acquire(StreamRef stream) {
    return {store_, store_.acquire(stream)};
  }

  /// Destroys idle handles with their workspaces. Returns the number of handles destroyed. May be
  /// called when memory is short (DeviceAllocatorOptions::on_pressure). Must not be called while
  /// work of a device is captured if destroy() waits for the device, which would break the capture.
  /// Blocking  As destroy(). Other threads can acquire meanwhile.
  std::size_t trim() { return store_.trim(); }

  /// Call it before a stream that berth does not own is destroyed. The stream's leases must have
  /// ended.
  void retire_stream(StreamRef stream) noexcept { store_.retire_stream(stream); }

  [[nodiscard]] HandleCounters counters() const { return store_.counters(); }

 private:
  /// Storage for a handle, separate from the handle's lifetime: a handle that cannot be destroyed
  /// safely is left in place.
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

  static detail::HandleStoreParts parts_of(Runtime& runtime) {
    return {
        .context = [&runtime](Device device) -> DeviceContext& {
          return runtime.default_stream(device).context();
        },
        .memory = [&runtime](Device device) -> DeviceAllocator& { return runtime.memory(device); },
        .events = [&runtime](Device device) -> EventPool& { return runtime.events(device); }};
  }

  static detail::HandleStoreOptions without_type(HandlePoolOptions<Handle> options) {
    detail::HandleStoreOptions untyped{.name = std::move(options.name),
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

  detail::HandleStore store_;
};

}  // namespace berth
