// SPDX-License-Identifier: Apache-2.0
#include "sim/error_names.hpp"

namespace berth::sim {
namespace {

#define BERTH_SIM_ERROR(code, description) \
  { code, #code, description }

constexpr ErrorName kErrorNames[] = {
    BERTH_SIM_ERROR(CUDA_SUCCESS, "no error"),
    BERTH_SIM_ERROR(CUDA_ERROR_INVALID_VALUE, "invalid argument"),
    BERTH_SIM_ERROR(CUDA_ERROR_OUT_OF_MEMORY, "out of memory"),
    BERTH_SIM_ERROR(CUDA_ERROR_NOT_INITIALIZED, "the driver was not initialized by cuInit"),
    BERTH_SIM_ERROR(CUDA_ERROR_DEINITIALIZED, "the driver is shutting down"),
    BERTH_SIM_ERROR(CUDA_ERROR_STUB_LIBRARY, "the library is a stub"),
    BERTH_SIM_ERROR(CUDA_ERROR_DEVICE_UNAVAILABLE, "the device is busy or unavailable"),
    BERTH_SIM_ERROR(CUDA_ERROR_NO_DEVICE, "no CUDA device is visible"),
    BERTH_SIM_ERROR(CUDA_ERROR_INVALID_DEVICE, "invalid device ordinal"),
    BERTH_SIM_ERROR(CUDA_ERROR_INVALID_IMAGE, "invalid device image"),
    BERTH_SIM_ERROR(CUDA_ERROR_INVALID_CONTEXT, "no context is current, or it is invalid"),
    BERTH_SIM_ERROR(CUDA_ERROR_MAP_FAILED, "mapping failed"),
    BERTH_SIM_ERROR(CUDA_ERROR_UNMAP_FAILED, "unmapping failed"),
    BERTH_SIM_ERROR(CUDA_ERROR_ALREADY_MAPPED, "the resource is mapped already"),
    BERTH_SIM_ERROR(CUDA_ERROR_NOT_MAPPED, "the resource is not mapped"),
    BERTH_SIM_ERROR(CUDA_ERROR_ECC_UNCORRECTABLE, "uncorrectable memory error"),
    BERTH_SIM_ERROR(CUDA_ERROR_INVALID_PTX, "the PTX cannot be compiled"),
    BERTH_SIM_ERROR(CUDA_ERROR_UNSUPPORTED_LIMIT, "the limit is not supported"),
    BERTH_SIM_ERROR(CUDA_ERROR_CONTEXT_ALREADY_IN_USE, "the context is in use by another thread"),
    BERTH_SIM_ERROR(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED, "the devices cannot access each other"),
    BERTH_SIM_ERROR(CUDA_ERROR_FILE_NOT_FOUND, "file not found"),
    BERTH_SIM_ERROR(CUDA_ERROR_OPERATING_SYSTEM, "a call of the operating system failed"),
    BERTH_SIM_ERROR(CUDA_ERROR_INVALID_HANDLE, "invalid handle"),
    BERTH_SIM_ERROR(CUDA_ERROR_ILLEGAL_STATE, "the resource is not in a state for this"),
    BERTH_SIM_ERROR(CUDA_ERROR_NOT_FOUND, "the symbol was not found"),
    BERTH_SIM_ERROR(CUDA_ERROR_NOT_READY, "the work is not done yet"),
    BERTH_SIM_ERROR(CUDA_ERROR_ILLEGAL_ADDRESS, "device work accessed an invalid address"),
    BERTH_SIM_ERROR(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, "too few resources for the launch"),
    BERTH_SIM_ERROR(CUDA_ERROR_LAUNCH_TIMEOUT, "the launch took too long and was stopped"),
    BERTH_SIM_ERROR(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED, "peer access is enabled already"),
    BERTH_SIM_ERROR(CUDA_ERROR_PEER_ACCESS_NOT_ENABLED, "peer access is not enabled"),
    BERTH_SIM_ERROR(CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE, "the primary context is active"),
    BERTH_SIM_ERROR(CUDA_ERROR_CONTEXT_IS_DESTROYED, "the current context was destroyed"),
    BERTH_SIM_ERROR(CUDA_ERROR_ASSERT, "an assertion failed on the device"),
    BERTH_SIM_ERROR(CUDA_ERROR_TOO_MANY_PEERS, "no resources for another peer"),
    BERTH_SIM_ERROR(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, "the host memory is pinned already"),
    BERTH_SIM_ERROR(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, "the host memory is not registered"),
    BERTH_SIM_ERROR(CUDA_ERROR_HARDWARE_STACK_ERROR, "hardware stack error"),
    BERTH_SIM_ERROR(CUDA_ERROR_ILLEGAL_INSTRUCTION, "illegal instruction on the device"),
    BERTH_SIM_ERROR(CUDA_ERROR_MISALIGNED_ADDRESS, "misaligned address on the device"),
    BERTH_SIM_ERROR(CUDA_ERROR_LAUNCH_FAILED, "device work failed"),
    BERTH_SIM_ERROR(CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE,
                    "the blocks of the cooperative launch do not fit at the same time"),
    BERTH_SIM_ERROR(CUDA_ERROR_NOT_PERMITTED, "not permitted here"),
    BERTH_SIM_ERROR(CUDA_ERROR_NOT_SUPPORTED, "not supported"),
    BERTH_SIM_ERROR(CUDA_ERROR_SYSTEM_NOT_READY, "the system is not ready for CUDA"),
    BERTH_SIM_ERROR(CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, "driver versions do not match"),
    BERTH_SIM_ERROR(CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE,
                    "forward compatibility is not supported on this device"),
    BERTH_SIM_ERROR(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "not allowed while a stream captures"),
    BERTH_SIM_ERROR(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, "the capture was invalidated"),
    BERTH_SIM_ERROR(CUDA_ERROR_STREAM_CAPTURE_MERGE, "two captures would merge"),
    BERTH_SIM_ERROR(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, "the capture began on another stream"),
    BERTH_SIM_ERROR(CUDA_ERROR_STREAM_CAPTURE_UNJOINED, "a fork of the capture was not joined"),
    BERTH_SIM_ERROR(CUDA_ERROR_STREAM_CAPTURE_ISOLATION, "a dependency would leave the capture"),
    BERTH_SIM_ERROR(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, "implicit use of the legacy stream"),
    BERTH_SIM_ERROR(CUDA_ERROR_CAPTURED_EVENT, "the event was last recorded in a capture"),
    BERTH_SIM_ERROR(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD, "the capture began in another thread"),
    BERTH_SIM_ERROR(CUDA_ERROR_TIMEOUT, "the wait timed out"),
    BERTH_SIM_ERROR(CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE, "the executable graph cannot be updated"),
    BERTH_SIM_ERROR(CUDA_ERROR_EXTERNAL_DEVICE, "an external device failed"),
    BERTH_SIM_ERROR(CUDA_ERROR_INVALID_CLUSTER_SIZE, "invalid size of clusters"),
    BERTH_SIM_ERROR(CUDA_ERROR_UNKNOWN, "unknown error"),
};

#undef BERTH_SIM_ERROR

}  // namespace

const ErrorName* find_error_name(CUresult code) {
  for (const ErrorName& known : kErrorNames)
    if (known.code == code) return &known;
  return nullptr;
}

std::string error_text(CUresult code) {
  const ErrorName* const known = find_error_name(code);
  return known != nullptr ? known->name : std::to_string(static_cast<int>(code));
}

}  // namespace berth::sim
