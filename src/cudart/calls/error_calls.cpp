// SPDX-License-Identifier: Apache-2.0
// Source: CUDA Runtime API, "Error Handling".
#include <algorithm>
#include <iterator>

#include "cudart/functions.hpp"
#include "cudart/thread.hpp"

namespace berth::cudart {
namespace {

struct ErrorName {
  cudaError_t code;
  const char* name;
  const char* description;
};

#define BERTH_CUDART_ERROR(code, description) \
  { code, #code, description }

constexpr ErrorName kErrorNames[] = {
    BERTH_CUDART_ERROR(cudaSuccess, "no error"),
    BERTH_CUDART_ERROR(cudaErrorInvalidValue, "invalid argument"),
    BERTH_CUDART_ERROR(cudaErrorMemoryAllocation, "out of memory"),
    BERTH_CUDART_ERROR(cudaErrorInitializationError, "initialization error"),
    BERTH_CUDART_ERROR(cudaErrorCudartUnloading, "the runtime is being unloaded"),
    BERTH_CUDART_ERROR(cudaErrorProfilerDisabled, "profiling is disabled"),
    BERTH_CUDART_ERROR(cudaErrorProfilerNotInitialized, "the profiler is not initialized"),
    BERTH_CUDART_ERROR(cudaErrorProfilerAlreadyStarted, "profiling has started already"),
    BERTH_CUDART_ERROR(cudaErrorProfilerAlreadyStopped, "profiling has stopped already"),
    BERTH_CUDART_ERROR(cudaErrorInvalidConfiguration, "invalid configuration of a launch"),
    BERTH_CUDART_ERROR(cudaErrorInvalidPitchValue, "invalid pitch"),
    BERTH_CUDART_ERROR(cudaErrorInvalidSymbol, "invalid device symbol"),
    BERTH_CUDART_ERROR(cudaErrorInvalidHostPointer, "invalid host pointer"),
    BERTH_CUDART_ERROR(cudaErrorInvalidDevicePointer, "invalid device pointer"),
    BERTH_CUDART_ERROR(cudaErrorInvalidTexture, "invalid texture"),
    BERTH_CUDART_ERROR(cudaErrorInvalidTextureBinding, "invalid binding of a texture"),
    BERTH_CUDART_ERROR(cudaErrorInvalidChannelDescriptor, "invalid channel descriptor"),
    BERTH_CUDART_ERROR(cudaErrorInvalidMemcpyDirection, "invalid direction of a copy"),
    BERTH_CUDART_ERROR(cudaErrorAddressOfConstant, "address of a constant variable"),
    BERTH_CUDART_ERROR(cudaErrorTextureFetchFailed, "a texture fetch failed"),
    BERTH_CUDART_ERROR(cudaErrorTextureNotBound, "the texture is not bound"),
    BERTH_CUDART_ERROR(cudaErrorSynchronizationError, "synchronization failed"),
    BERTH_CUDART_ERROR(cudaErrorInvalidFilterSetting, "invalid filter of a texture"),
    BERTH_CUDART_ERROR(cudaErrorInvalidNormSetting, "invalid normalization of a texture"),
    BERTH_CUDART_ERROR(cudaErrorMixedDeviceExecution, "device code and emulation were mixed"),
    BERTH_CUDART_ERROR(cudaErrorNotYetImplemented, "not implemented yet"),
    BERTH_CUDART_ERROR(cudaErrorMemoryValueTooLarge, "the memory value is too large"),
    BERTH_CUDART_ERROR(cudaErrorStubLibrary, "the driver library is a stub"),
    BERTH_CUDART_ERROR(cudaErrorInsufficientDriver,
                       "there is no CUDA driver, or it is older than the runtime"),
    BERTH_CUDART_ERROR(cudaErrorCallRequiresNewerDriver, "the call needs a newer CUDA driver"),
    BERTH_CUDART_ERROR(cudaErrorInvalidSurface, "invalid surface"),
    BERTH_CUDART_ERROR(cudaErrorDuplicateVariableName, "two device variables have one name"),
    BERTH_CUDART_ERROR(cudaErrorDuplicateTextureName, "two textures have one name"),
    BERTH_CUDART_ERROR(cudaErrorDuplicateSurfaceName, "two surfaces have one name"),
    BERTH_CUDART_ERROR(cudaErrorDevicesUnavailable, "all devices are busy or unavailable"),
    BERTH_CUDART_ERROR(cudaErrorIncompatibleDriverContext,
                       "the current context cannot be used by the runtime"),
    BERTH_CUDART_ERROR(cudaErrorMissingConfiguration, "the launch has no configuration"),
    BERTH_CUDART_ERROR(cudaErrorPriorLaunchFailure, "an earlier launch failed"),
    BERTH_CUDART_ERROR(cudaErrorLaunchMaxDepthExceeded,
                       "a launch by a kernel is nested too deeply"),
    BERTH_CUDART_ERROR(cudaErrorLaunchFileScopedTex,
                       "a nested kernel uses a texture of file scope"),
    BERTH_CUDART_ERROR(cudaErrorLaunchFileScopedSurf,
                       "a nested kernel uses a surface of file scope"),
    BERTH_CUDART_ERROR(cudaErrorSyncDepthExceeded,
                       "a synchronization by a kernel is nested too deeply"),
    BERTH_CUDART_ERROR(cudaErrorLaunchPendingCountExceeded,
                       "too many launches by kernels are pending"),
    BERTH_CUDART_ERROR(cudaErrorInvalidDeviceFunction, "invalid device function"),
    BERTH_CUDART_ERROR(cudaErrorNoDevice, "no CUDA device is visible"),
    BERTH_CUDART_ERROR(cudaErrorInvalidDevice, "invalid device ordinal"),
    BERTH_CUDART_ERROR(cudaErrorDeviceNotLicensed, "the device is not licensed"),
    BERTH_CUDART_ERROR(cudaErrorSoftwareValidityNotEstablished,
                       "the integrity of the software was not established"),
    BERTH_CUDART_ERROR(cudaErrorStartupFailure, "the runtime could not start"),
    BERTH_CUDART_ERROR(cudaErrorInvalidKernelImage, "invalid kernel image"),
    BERTH_CUDART_ERROR(cudaErrorDeviceUninitialized, "no valid context is current"),
    BERTH_CUDART_ERROR(cudaErrorMapBufferObjectFailed, "mapping failed"),
    BERTH_CUDART_ERROR(cudaErrorUnmapBufferObjectFailed, "unmapping failed"),
    BERTH_CUDART_ERROR(cudaErrorArrayIsMapped, "the array is mapped"),
    BERTH_CUDART_ERROR(cudaErrorAlreadyMapped, "the resource is mapped already"),
    BERTH_CUDART_ERROR(cudaErrorNoKernelImageForDevice, "there is no kernel image for this device"),
    BERTH_CUDART_ERROR(cudaErrorAlreadyAcquired, "the resource was acquired already"),
    BERTH_CUDART_ERROR(cudaErrorNotMapped, "the resource is not mapped"),
    BERTH_CUDART_ERROR(cudaErrorNotMappedAsArray, "the resource is not mapped as an array"),
    BERTH_CUDART_ERROR(cudaErrorNotMappedAsPointer, "the resource is not mapped as a pointer"),
    BERTH_CUDART_ERROR(cudaErrorECCUncorrectable, "uncorrectable memory error"),
    BERTH_CUDART_ERROR(cudaErrorUnsupportedLimit, "the limit is not supported"),
    BERTH_CUDART_ERROR(cudaErrorDeviceAlreadyInUse, "the device is in use by another thread"),
    BERTH_CUDART_ERROR(cudaErrorPeerAccessUnsupported, "the devices cannot access each other"),
    BERTH_CUDART_ERROR(cudaErrorInvalidPtx, "invalid PTX"),
    BERTH_CUDART_ERROR(cudaErrorInvalidGraphicsContext, "invalid graphics context"),
    BERTH_CUDART_ERROR(cudaErrorNvlinkUncorrectable, "uncorrectable NVLink error"),
    BERTH_CUDART_ERROR(cudaErrorJitCompilerNotFound, "the PTX compiler was not found"),
    BERTH_CUDART_ERROR(cudaErrorUnsupportedPtxVersion, "the PTX needs a newer toolchain"),
    BERTH_CUDART_ERROR(cudaErrorJitCompilationDisabled, "compilation of PTX is disabled"),
    BERTH_CUDART_ERROR(cudaErrorUnsupportedExecAffinity, "the execution affinity is not supported"),
    BERTH_CUDART_ERROR(cudaErrorUnsupportedDevSideSync,
                       "synchronization by a kernel is not supported"),
    BERTH_CUDART_ERROR(cudaErrorContained, "an error was contained on the device"),
    BERTH_CUDART_ERROR(cudaErrorInvalidSource, "invalid kernel source"),
    BERTH_CUDART_ERROR(cudaErrorFileNotFound, "file not found"),
    BERTH_CUDART_ERROR(cudaErrorSharedObjectSymbolNotFound,
                       "a symbol of a shared object was not found"),
    BERTH_CUDART_ERROR(cudaErrorSharedObjectInitFailed, "a shared object could not be initialized"),
    BERTH_CUDART_ERROR(cudaErrorOperatingSystem, "a call of the operating system failed"),
    BERTH_CUDART_ERROR(cudaErrorInvalidResourceHandle, "invalid resource handle"),
    BERTH_CUDART_ERROR(cudaErrorIllegalState, "the resource is not in a state for this"),
    BERTH_CUDART_ERROR(cudaErrorLossyQuery, "the query would lose information"),
    BERTH_CUDART_ERROR(cudaErrorSymbolNotFound, "the symbol was not found"),
    BERTH_CUDART_ERROR(cudaErrorNotReady, "the work is not done yet"),
    BERTH_CUDART_ERROR(cudaErrorIllegalAddress, "device work accessed an invalid address"),
    BERTH_CUDART_ERROR(cudaErrorLaunchOutOfResources, "too few resources for the launch"),
    BERTH_CUDART_ERROR(cudaErrorLaunchTimeout, "the launch took too long and was stopped"),
    BERTH_CUDART_ERROR(cudaErrorLaunchIncompatibleTexturing,
                       "the launch has an incompatible texturing mode"),
    BERTH_CUDART_ERROR(cudaErrorPeerAccessAlreadyEnabled, "peer access is enabled already"),
    BERTH_CUDART_ERROR(cudaErrorPeerAccessNotEnabled, "peer access is not enabled"),
    BERTH_CUDART_ERROR(cudaErrorSetOnActiveProcess,
                       "the setting must precede the first use of the device"),
    BERTH_CUDART_ERROR(cudaErrorContextIsDestroyed, "the current context was destroyed"),
    BERTH_CUDART_ERROR(cudaErrorAssert, "an assertion failed on the device"),
    BERTH_CUDART_ERROR(cudaErrorTooManyPeers, "no resources for another peer"),
    BERTH_CUDART_ERROR(cudaErrorHostMemoryAlreadyRegistered, "the host memory is pinned already"),
    BERTH_CUDART_ERROR(cudaErrorHostMemoryNotRegistered, "the host memory is not registered"),
    BERTH_CUDART_ERROR(cudaErrorHardwareStackError, "hardware stack error"),
    BERTH_CUDART_ERROR(cudaErrorIllegalInstruction, "illegal instruction on the device"),
    BERTH_CUDART_ERROR(cudaErrorMisalignedAddress, "misaligned address on the device"),
    BERTH_CUDART_ERROR(cudaErrorInvalidAddressSpace, "an instruction used the wrong address space"),
    BERTH_CUDART_ERROR(cudaErrorInvalidPc, "invalid program counter on the device"),
    BERTH_CUDART_ERROR(cudaErrorLaunchFailure, "device work failed"),
    BERTH_CUDART_ERROR(cudaErrorCooperativeLaunchTooLarge,
                       "too many blocks for a cooperative launch"),
    BERTH_CUDART_ERROR(cudaErrorTensorMemoryLeak, "a kernel left tensor memory allocated"),
    BERTH_CUDART_ERROR(cudaErrorNotPermitted, "not permitted here"),
    BERTH_CUDART_ERROR(cudaErrorNotSupported, "not supported"),
    BERTH_CUDART_ERROR(cudaErrorSystemNotReady, "the system is not ready for CUDA"),
    BERTH_CUDART_ERROR(cudaErrorSystemDriverMismatch, "driver versions do not match"),
    BERTH_CUDART_ERROR(cudaErrorCompatNotSupportedOnDevice,
                       "forward compatibility is not supported on this device"),
    BERTH_CUDART_ERROR(cudaErrorMpsConnectionFailed, "no connection to the MPS control daemon"),
    BERTH_CUDART_ERROR(cudaErrorMpsRpcFailure, "a call of the MPS server failed"),
    BERTH_CUDART_ERROR(cudaErrorMpsServerNotReady, "the MPS server is not ready"),
    BERTH_CUDART_ERROR(cudaErrorMpsMaxClientsReached,
                       "the MPS server has no room for another client"),
    BERTH_CUDART_ERROR(cudaErrorMpsMaxConnectionsReached,
                       "the MPS server has no room for another connection"),
    BERTH_CUDART_ERROR(cudaErrorMpsClientTerminated, "the MPS server ended this client"),
    BERTH_CUDART_ERROR(cudaErrorCdpNotSupported, "launches by kernels are not supported"),
    BERTH_CUDART_ERROR(cudaErrorCdpVersionMismatch,
                       "two versions of launches by kernels do not match"),
    BERTH_CUDART_ERROR(cudaErrorStreamCaptureUnsupported, "not allowed while a stream captures"),
    BERTH_CUDART_ERROR(cudaErrorStreamCaptureInvalidated, "the capture was invalidated"),
    BERTH_CUDART_ERROR(cudaErrorStreamCaptureMerge, "two captures would merge"),
    BERTH_CUDART_ERROR(cudaErrorStreamCaptureUnmatched, "the capture began on another stream"),
    BERTH_CUDART_ERROR(cudaErrorStreamCaptureUnjoined,
                       "work that was forked in the capture was not joined"),
    BERTH_CUDART_ERROR(cudaErrorStreamCaptureIsolation, "the call would reach out of the capture"),
    BERTH_CUDART_ERROR(cudaErrorStreamCaptureImplicit,
                       "the legacy stream would depend on the capture"),
    BERTH_CUDART_ERROR(cudaErrorCapturedEvent, "the event was last recorded in a capture"),
    BERTH_CUDART_ERROR(cudaErrorStreamCaptureWrongThread, "the capture began on another thread"),
    BERTH_CUDART_ERROR(cudaErrorTimeout, "the wait took too long"),
    BERTH_CUDART_ERROR(cudaErrorGraphExecUpdateFailure,
                       "the executable graph cannot be updated like this"),
    BERTH_CUDART_ERROR(cudaErrorExternalDevice, "a device outside of CUDA failed"),
    BERTH_CUDART_ERROR(cudaErrorInvalidClusterSize, "invalid cluster size"),
    BERTH_CUDART_ERROR(cudaErrorFunctionNotLoaded, "the device function is not loaded"),
    BERTH_CUDART_ERROR(cudaErrorInvalidResourceType, "invalid type of resource"),
    BERTH_CUDART_ERROR(cudaErrorInvalidResourceConfiguration,
                       "invalid configuration of a resource"),
    BERTH_CUDART_ERROR(cudaErrorUnknown, "unknown error"),
};

constexpr ErrorName kUnknown = {cudaErrorUnknown, "unrecognized error code",
                                "unrecognized error code"};

const ErrorName& find(cudaError_t code) {
  const auto* const found =
      std::find_if(std::begin(kErrorNames), std::end(kErrorNames),
                   [&](const ErrorName& known) { return known.code == code; });
  return found == std::end(kErrorNames) ? kUnknown : *found;
}

}  // namespace

const char* berth_cudart_cudaGetErrorName(cudaError_t error) {
  return find(error).name;
}

const char* berth_cudart_cudaGetErrorString(cudaError_t error) {
  return find(error).description;
}

cudaError_t berth_cudart_cudaGetLastError() {
  return this_thread().take_last_error();
}

cudaError_t berth_cudart_cudaPeekAtLastError() {
  return this_thread().peek_last_error();
}

}  // namespace berth::cudart
