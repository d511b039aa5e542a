// SPDX-License-Identifier: Apache-2.0
#include "cudart/contexts.hpp"

#include <array>
#include <atomic>
#include <cstddef>

#include "base/mutex.hpp"
#include "cudart/thread.hpp"

namespace berth::cudart {
namespace {

/// The maximum number of visible devices.
constexpr std::size_t kDevicesMax = 256;

/// The retained contexts; null before the first use and after a reset. Read without the lock.
std::array<std::atomic<CUcontext>, kDevicesMax> primaries = {};
Mutex retaining;

std::atomic<CUcontext>& primary_of(int device) {
  return primaries[static_cast<std::size_t>(device)];
}

/// Whether the runtime made `context` current for this thread, and a reset has destroyed it.
bool has_ended(const Thread& thread, CUcontext context) {
  return context == thread.context &&
         primary_of(thread.device).load(std::memory_order_acquire) != context;
}

CUresult find_current(const Driver& driver, CUcontext& current) {
  if (const auto without_call = loaded_driver()->current_context; without_call != nullptr) {
    current = without_call();
    if (current != nullptr) return CUDA_SUCCESS;
  }
  return driver.cuCtxGetCurrent(&current);
}

}  // namespace

CUresult check_device(const Driver& driver, int device) {
  int count = 0;
  const CUresult counted = driver.cuDeviceGetCount(&count);
  if (counted != CUDA_SUCCESS) return counted;
  const bool exists =
      device >= 0 && device < count && static_cast<std::size_t>(device) < kDevicesMax;
  return exists ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

CUresult primary_context(const Driver& driver, int device, CUcontext& context) {
  std::atomic<CUcontext>& primary = primary_of(device);
  context = primary.load(std::memory_order_acquire);
  if (context != nullptr) return CUDA_SUCCESS;
  const MutexLock lock(retaining);
  context = primary.load(std::memory_order_relaxed);
  if (context != nullptr) return CUDA_SUCCESS;
  const CUresult retained = driver.cuDevicePrimaryCtxRetain(&context, device);
  if (retained == CUDA_SUCCESS) primary.store(context, std::memory_order_release);
  return retained;
}

CUresult set_device(const Driver& driver, int device) {
  const CUresult accepted = check_device(driver, device);
  if (accepted != CUDA_SUCCESS) return accepted;
  Thread& thread = this_thread();
  CUcontext context = nullptr;
  const CUresult retained = primary_context(driver, device, context);
  if (retained != CUDA_SUCCESS) return retained;
  const CUresult set = driver.cuCtxSetCurrent(context);
  if (set != CUDA_SUCCESS) return set;
  thread.device = device;
  thread.context = context;
  return CUDA_SUCCESS;
}

CUresult enter_context(const Driver& driver) {
  const Thread& thread = this_thread();
  CUcontext current = nullptr;
  const CUresult known = find_current(driver, current);
  if (known != CUDA_SUCCESS) return known;
  if (current != nullptr && !has_ended(thread, current)) return CUDA_SUCCESS;
  return set_device(driver, thread.device);
}

CUresult current_device(const Driver& driver, int& device) {
  const Thread& thread = this_thread();
  CUcontext current = nullptr;
  const CUresult known = find_current(driver, current);
  if (known != CUDA_SUCCESS) return known;
  if (current != nullptr && current != thread.context) return driver.cuCtxGetDevice(&device);
  device = thread.device;
  return CUDA_SUCCESS;
}

CUresult reset_device(const Driver& driver, int device) {
  const MutexLock lock(retaining);
  const CUcontext context = primary_of(device).exchange(nullptr);
  const CUresult reset = driver.cuDevicePrimaryCtxReset(device);
  if (context != nullptr) driver.cuDevicePrimaryCtxRelease(device);
  note_reset();
  return reset;
}

}  // namespace berth::cudart
