// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <exception>

#include "berth/relaxed_capture_scope.hpp"
#include "berth/runtime.hpp"

#include "cupy/berth_cupy.h"
#include "device_wait.hpp"

namespace {

using namespace berth;

/// What `call` returns. No exception goes on to CuPy, which is written in C.
template <class Call>
auto with_runtime(void* runtime, Call call) noexcept -> decltype(call(std::declval<Runtime&>())) {
  try {
    return call(runtime_of(static_cast<berth_runtime*>(runtime)));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "berth: error: %s\n", error.what());
  }
  return decltype(call(std::declval<Runtime&>()))();
}

void wait_until_idle(Runtime& runtime, Device device) {
  if (const int code = try_wait_until_idle(runtime, device); code != 0) {
    throw NotSupported(device.to_string() +
                       " cannot be waited for, so memory of CuPy is not freed: CUDA error " +
                       std::to_string(code));
  }
}

}  // namespace

void* berth_cupy_malloc(void* runtime, size_t bytes, int device) {
  return with_runtime(runtime, [=](Runtime& owner) {
    const Device of = Device::cuda(device);
    // A stream without work of others: it holds only the waits behind which memory is available.
    const Stream stream = owner.create_stream(of);
    Allocation block = owner.memory(of).allocate(bytes, stream);
    const RelaxedCaptureScope relaxed(stream.ref().context());
    stream.ref().sync();
    return block.release();
  });
}

void berth_cupy_free(void* runtime, void* data, int device) {
  if (data == nullptr) return;
  with_runtime(runtime, [=](Runtime& owner) {
    const Device of = Device::cuda(device);
    DeviceAllocator& memory = owner.memory(of);
    if (memory.owns(data)) wait_until_idle(owner, of);
    memory.deallocate(data);
  });
}

void* berth_cupy_pinned_malloc(void* runtime, size_t bytes, int device) {
  return with_runtime(runtime, [=](Runtime& owner) {
    return owner.pinned_memory().allocate_raw(bytes, {.near = Device::cuda(device)});
  });
}

void berth_cupy_pinned_free(void* runtime, void* data, int) {
  if (data == nullptr) return;
  with_runtime(runtime, [=](Runtime& owner) { owner.pinned_memory().deallocate(data); });
}
