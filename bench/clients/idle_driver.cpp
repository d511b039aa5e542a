// SPDX-License-Identifier: Apache-2.0
// A driver that does nothing: one device, addresses for memory, numbers for streams and events, and
// every other call succeeds at once. What a program takes on it is what the program and the CUDA
// runtime take. For torch_steps.py alone: it has what that asks for.
#include <cuda.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string_view>

namespace {

constexpr std::uint64_t kDeviceBytes = std::uint64_t{80} << 30;
constexpr CUdeviceptr kDeviceStart = CUdeviceptr{1} << 46;
constexpr std::size_t kAlignment = 512;
constexpr int kVersion = 13000;

std::atomic<CUdeviceptr> next_address = kDeviceStart;
std::atomic<std::uintptr_t> next_handle = 0x1000;
thread_local CUcontext current = nullptr;

template <class Handle>
Handle make_handle() {
  return reinterpret_cast<Handle>(next_handle.fetch_add(0x10));
}

bool is_device(CUdeviceptr address) {
  return address >= kDeviceStart && address < next_address;
}

CUresult nothing() {
  return CUDA_SUCCESS;
}

CUresult version(int* out) {
  *out = kVersion;
  return CUDA_SUCCESS;
}

CUresult one(int* out) {
  *out = 1;
  return CUDA_SUCCESS;
}

CUresult device(CUdevice* out) {
  *out = 0;
  return CUDA_SUCCESS;
}

CUresult device_of(CUdevice* out, int) {
  return device(out);
}

CUresult device_name(char* name, int bytes, CUdevice) {
  std::strncpy(name, "idle", static_cast<std::size_t>(bytes));
  return CUDA_SUCCESS;
}

CUresult device_bytes(std::size_t* bytes, CUdevice) {
  *bytes = kDeviceBytes;
  return CUDA_SUCCESS;
}

CUresult device_attribute(int* value, CUdevice_attribute attribute, CUdevice) {
  switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
      *value = 9;
      break;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
      *value = 132;
      break;
    case CU_DEVICE_ATTRIBUTE_WARP_SIZE:
      *value = 32;
      break;
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X:
      *value = 1024;
      break;
    case CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING:
    case CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY:
      *value = 1;
      break;
    default:
      *value = 0;
  }
  return CUDA_SUCCESS;
}

CUresult retain(CUcontext* context, CUdevice) {
  *context = reinterpret_cast<CUcontext>(std::uintptr_t{0x100});
  return CUDA_SUCCESS;
}

CUresult context_state(CUdevice, unsigned* flags, int* active) {
  *flags = 0;
  *active = 1;
  return CUDA_SUCCESS;
}

CUresult get_current(CUcontext* context) {
  *context = current;
  return CUDA_SUCCESS;
}

CUresult set_current(CUcontext context) {
  current = context;
  return CUDA_SUCCESS;
}

CUresult priorities(int* least, int* greatest) {
  *least = 0;
  *greatest = -5;
  return CUDA_SUCCESS;
}

CUresult make_stream(CUstream* stream, unsigned) {
  *stream = make_handle<CUstream>();
  return CUDA_SUCCESS;
}

CUresult make_urgent_stream(CUstream* stream, unsigned, int) {
  return make_stream(stream, 0);
}

CUresult stream_number(CUstream, int* number) {
  *number = 0;
  return CUDA_SUCCESS;
}

CUresult is_capturing(CUstream, CUstreamCaptureStatus* status) {
  *status = CU_STREAM_CAPTURE_STATUS_NONE;
  return CUDA_SUCCESS;
}

CUresult capture_info(CUstream stream, CUstreamCaptureStatus* status, cuuint64_t*, CUgraph*,
                      const CUgraphNode**, const CUgraphEdgeData**, std::size_t*) {
  return is_capturing(stream, status);
}

CUresult make_event(CUevent* event, unsigned) {
  *event = make_handle<CUevent>();
  return CUDA_SUCCESS;
}

CUresult allocate(CUdeviceptr* pointer, std::size_t bytes) {
  *pointer = next_address.fetch_add((bytes + kAlignment - 1) / kAlignment * kAlignment);
  return CUDA_SUCCESS;
}

CUresult allocate_host(void** pointer, std::size_t bytes, unsigned) {
  *pointer = std::aligned_alloc(kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment);
  return *pointer == nullptr ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

CUresult free_host(void* pointer) {
  std::free(pointer);
  return CUDA_SUCCESS;
}

CUresult memory_info(std::size_t* free, std::size_t* total) {
  *free = *total = kDeviceBytes;
  return CUDA_SUCCESS;
}

CUresult pointer_attributes(unsigned count, CUpointer_attribute* attributes, void** data,
                            CUdeviceptr pointer) {
  for (unsigned i = 0; i < count; ++i) {
    if (attributes[i] == CU_POINTER_ATTRIBUTE_MEMORY_TYPE)
      *static_cast<unsigned*>(data[i]) =
          is_device(pointer) ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
    if (attributes[i] == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL) *static_cast<int*>(data[i]) = 0;
    if (attributes[i] == CU_POINTER_ATTRIBUTE_DEVICE_POINTER ||
        attributes[i] == CU_POINTER_ATTRIBUTE_HOST_POINTER)
      *static_cast<CUdeviceptr*>(data[i]) = pointer;
  }
  return CUDA_SUCCESS;
}

CUresult name_of_error(CUresult, const char** name) {
  *name = "an error";
  return CUDA_SUCCESS;
}

struct Function {
  std::string_view name;
  void* address;
};

template <class T>
Function entry(std::string_view name, T* function) {
  return {name, reinterpret_cast<void*>(function)};
}

const Function kFunctions[] = {
    entry("cuDriverGetVersion", &version),
    entry("cuDeviceGetCount", &one),
    entry("cuDeviceGet", &device_of),
    entry("cuCtxGetDevice", &device),
    entry("cuDeviceGetName", &device_name),
    entry("cuDeviceTotalMem", &device_bytes),
    entry("cuDeviceGetAttribute", &device_attribute),
    entry("cuDevicePrimaryCtxRetain", &retain),
    entry("cuDevicePrimaryCtxGetState", &context_state),
    entry("cuCtxGetCurrent", &get_current),
    entry("cuCtxSetCurrent", &set_current),
    entry("cuCtxGetStreamPriorityRange", &priorities),
    entry("cuStreamCreate", &make_stream),
    entry("cuStreamCreateWithPriority", &make_urgent_stream),
    entry("cuStreamGetPriority", &stream_number),
    entry("cuStreamGetFlags", &stream_number),
    entry("cuStreamIsCapturing", &is_capturing),
    entry("cuStreamGetCaptureInfo", &capture_info),
    entry("cuEventCreate", &make_event),
    entry("cuMemAlloc", &allocate),
    entry("cuMemHostAlloc", &allocate_host),
    entry("cuMemFreeHost", &free_host),
    entry("cuMemGetInfo", &memory_info),
    entry("cuPointerGetAttributes", &pointer_attributes),
    entry("cuGetErrorName", &name_of_error),
    entry("cuGetErrorString", &name_of_error),
};

CUresult find(std::string_view name, void** function) {
  *function = reinterpret_cast<void*>(&nothing);
  // Only the simulated driver has these.
  if (name.starts_with("berth")) {
    *function = nullptr;
    return CUDA_ERROR_NOT_FOUND;
  }
  for (const Function& known : kFunctions)
    if (known.name == name) *function = known.address;
  return CUDA_SUCCESS;
}

}  // namespace

#define BERTH_IDLE __attribute__((visibility("default")))

extern "C" {
BERTH_IDLE CUresult cuGetProcAddress_v2(const char* name, void** function, int, cuuint64_t,
                                        CUdriverProcAddressQueryResult* status) {
  const CUresult result = find(name, function);
  if (status != nullptr)
    *status =
        result == CUDA_SUCCESS ? CU_GET_PROC_ADDRESS_SUCCESS : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  return result;
}

BERTH_IDLE CUresult cuInit(unsigned) {
  return CUDA_SUCCESS;
}

BERTH_IDLE CUresult cuDriverGetVersion(int* out) {
  return version(out);
}

// PyTorch looks for these by dlsym.
BERTH_IDLE CUresult cuDevicePrimaryCtxGetState(CUdevice, unsigned* flags, int* active) {
  return context_state(0, flags, active);
}

BERTH_IDLE CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice) {
  return retain(context, 0);
}

BERTH_IDLE CUresult cuCtxGetCurrent(CUcontext* context) {
  return get_current(context);
}

BERTH_IDLE CUresult cuCtxSetCurrent(CUcontext context) {
  return set_current(context);
}
}
