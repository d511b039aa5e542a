// SPDX-License-Identifier: Apache-2.0
// The implementation of HandlePool for handles of any type. Programs use handle_pool.hpp: this
// header may change at any time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "berth/device.hpp"
#include "berth/device_allocator.hpp"
#include "berth/event_pool.hpp"
#include "berth/export.h"
#include "berth/handle_counters.hpp"
#include "berth/stream.hpp"

namespace berth::detail {

/// HandlePoolOptions for handles behind pointers; see there.
struct HandleStoreOptions {
  std::string name;
  std::function<void*()> create;
  std::function<void(void* handle)> destroy;
  /// Frees the host memory of a handle that is not destroyed. Makes no library call.
  std::function<void(void* handle)> abandon;
  std::function<void(void* handle, StreamRef stream)> bind;
  std::function<void(void* handle, void* workspace, std::size_t bytes)> set_workspace;
  std::size_t workspace_bytes;
  bool keeps_device_memory;
  std::size_t handles_max;
  HandleShortage on_shortage;
};

/// Accessors of the parts of a Runtime that handles need. Errors of each  InvalidArgument: no such
/// device.
struct HandleStoreParts {
  std::function<DeviceContext&(Device device)> context;
  std::function<DeviceAllocator&(Device device)> memory;
  std::function<EventPool&(Device device)> events;
};

/// The untyped pool of handles. Contracts of its functions: HandlePool.
/// Threads  Safe from any thread.
class BERTH_API HandleStore {
 public:
  struct Item;
  /// The content of a lease.
  struct Held {
    Item* item;
    void* handle;
  };

  HandleStore(HandleStoreParts parts, HandleStoreOptions options);
  ~HandleStore();
  HandleStore(const HandleStore&) = delete;
  HandleStore& operator=(const HandleStore&) = delete;

  [[nodiscard]] Held acquire(StreamRef stream);
  void give_back(Item& item) noexcept;
  std::size_t trim();
  void retire_stream(StreamRef stream) noexcept;
  [[nodiscard]] HandleCounters counters() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace berth::detail
