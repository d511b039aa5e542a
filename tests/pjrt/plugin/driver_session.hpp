// SPDX-License-Identifier: Apache-2.0
// The simulated driver, as the plug-in uses it.
#pragma once

#include <cuda.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "pjrt/plugin/machine.hpp"

namespace berth::pjrt {

// clang-format off
#define PLUGIN_DRIVER_FUNCTIONS(X) \
  X(init,                  cuInit) \
  X(device_get,            cuDeviceGet) \
  X(primary_ctx_retain,    cuDevicePrimaryCtxRetain) \
  X(primary_ctx_release,   cuDevicePrimaryCtxRelease) \
  X(ctx_push_current,      cuCtxPushCurrent) \
  X(ctx_pop_current,       cuCtxPopCurrent) \
  X(ctx_synchronize,       cuCtxSynchronize) \
  X(mem_get_info,          cuMemGetInfo) \
  X(mem_alloc_async,       cuMemAllocAsync) \
  X(mem_free_async,        cuMemFreeAsync) \
  X(mem_host_alloc,        cuMemHostAlloc) \
  X(mem_free_host,         cuMemFreeHost) \
  X(mem_host_register,     cuMemHostRegister) \
  X(mem_host_unregister,   cuMemHostUnregister) \
  X(memcpy_async,          cuMemcpyAsync) \
  X(memcpy_peer_async,     cuMemcpyPeerAsync) \
  X(pointer_get_attribute, cuPointerGetAttribute) \
  X(stream_create,         cuStreamCreate) \
  X(stream_destroy,        cuStreamDestroy) \
  X(stream_wait_event,     cuStreamWaitEvent) \
  X(launch_host_func,      cuLaunchHostFunc) \
  X(event_create,          cuEventCreate) \
  X(event_destroy,         cuEventDestroy) \
  X(event_record,          cuEventRecord) \
  X(event_query,           cuEventQuery) \
  X(event_synchronize,     cuEventSynchronize)
// clang-format on

struct Functions {
  explicit Functions(ResolveDriver* resolve) {
#define FIND_FUNCTION(member, symbol) member = reinterpret_cast<decltype(member)>(resolve(#symbol));
    PLUGIN_DRIVER_FUNCTIONS(FIND_FUNCTION)
#undef FIND_FUNCTION
  }
#define DECLARE_FUNCTION(member, symbol) decltype(&::symbol) member = nullptr;
  PLUGIN_DRIVER_FUNCTIONS(DECLARE_FUNCTION)
#undef DECLARE_FUNCTION
};

inline void check(CUresult result, const char* call) {
  if (result == CUDA_SUCCESS) return;
  throw MachineError(result == CUDA_ERROR_OUT_OF_MEMORY ? Code::resource_exhausted : Code::internal,
                     std::string(call) + " returned " + std::to_string(int(result)));
}

/// The driver, from the creation of a client to its end. Works and storages may remain then, and
/// have no effect.
class Session {
 public:
  Session(ResolveDriver* resolve, int devices) : call(resolve) {
    check(call.init(0), "cuInit");
    for (int ordinal = 0; ordinal < devices; ++ordinal) {
      CUdevice device = 0;
      check(call.device_get(&device, ordinal), "cuDeviceGet");
      devices_.push_back(device);
    }
    for (const CUdevice device : devices_) {
      contexts_.push_back(nullptr);
      check(call.primary_ctx_retain(&contexts_.back(), device), "cuDevicePrimaryCtxRetain");
    }
  }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  [[nodiscard]] bool has_ended() const { return has_ended_; }
  [[nodiscard]] CUcontext context(int device) const { return contexts_[std::size_t(device)]; }

  /// The session destroys the event at its end, unless it is removed before.
  void add(CUevent event) {
    const std::lock_guard lock(mutex_);
    events_.insert(event);
  }
  void remove(CUevent event) {
    const std::lock_guard lock(mutex_);
    events_.erase(event);
  }
  /// Pinned memory that nothing else uses before the end of the session. Needs a context.
  void* stage(std::size_t bytes) {
    constexpr std::size_t kChunkBytes = 16 << 20;
    const std::lock_guard lock(mutex_);
    if (stage_left_ < bytes) {
      stage_left_ = std::max(bytes, kChunkBytes);
      stages_.push_back(nullptr);
      check(call.mem_host_alloc(&stages_.back(), stage_left_, CU_MEMHOSTALLOC_PORTABLE),
            "cuMemHostAlloc");
      stage_ = static_cast<std::byte*>(stages_.back());
    }
    stage_left_ -= bytes;
    return std::exchange(stage_, stage_ + bytes);
  }
  /// Once, when no call of the plug-in is made any more.
  void end();

  const Functions call;

 private:
  std::vector<CUdevice> devices_;
  std::vector<CUcontext> contexts_;
  std::mutex mutex_;
  std::set<CUevent> events_;
  std::vector<void*> stages_;
  std::byte* stage_ = nullptr;
  std::size_t stage_left_ = 0;
  std::atomic<bool> has_ended_ = false;
};

/// Makes the context of a device current.
class Current {
 public:
  Current(const Session& session, int device) : session_(session) {
    check(session_.call.ctx_push_current(session.context(device)), "cuCtxPushCurrent");
  }
  ~Current() {
    CUcontext popped = nullptr;
    session_.call.ctx_pop_current(&popped);
  }
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;

 private:
  const Session& session_;
};

inline void Session::end() {
  for (std::size_t device = 0; device < devices_.size(); ++device) {
    const Current current(*this, int(device));
    check(call.ctx_synchronize(), "cuCtxSynchronize");
  }
  if (!devices_.empty()) {
    const Current current(*this, 0);
    for (const CUevent event : events_) check(call.event_destroy(event), "cuEventDestroy");
    for (void* const stage : stages_) check(call.mem_free_host(stage), "cuMemFreeHost");
  }
  has_ended_ = true;
  for (const CUdevice device : devices_)
    check(call.primary_ctx_release(device), "cuDevicePrimaryCtxRelease");
}

}  // namespace berth::pjrt
