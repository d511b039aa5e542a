// SPDX-License-Identifier: Apache-2.0
#include "cudart/thread.hpp"

#include <atomic>
#include <utility>

namespace berth::cudart {
namespace {

std::atomic<std::uint64_t> resets = 0;

// Errors that leave the process in an inconsistent state, so that all later work returns the same
// error. Source: CUDA Runtime API, "Data types used by CUDA Runtime", enum cudaError.
bool stays(cudaError_t error) {
  switch (error) {
    case cudaErrorECCUncorrectable:
    case cudaErrorNvlinkUncorrectable:
    case cudaErrorContained:
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchTimeout:
    case cudaErrorAssert:
    case cudaErrorHardwareStackError:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorLaunchFailure:
    case cudaErrorTensorMemoryLeak:
    case cudaErrorExternalDevice:
      return true;
    default:
      return false;
  }
}

}  // namespace

// Source: CUDA C++ Programming Guide, "Error Checking": cudaErrorNotReady is not an error.
cudaError_t Thread::note(cudaError_t error) {
  if (error == cudaSuccess || error == cudaErrorNotReady) return error;
  last_error_ = error;
  resets_seen_ = resets.load(std::memory_order_relaxed);
  return error;
}

cudaError_t Thread::peek_last_error() {
  drop_outdated();
  return last_error_;
}

cudaError_t Thread::take_last_error() {
  drop_outdated();
  return stays(last_error_) ? last_error_ : std::exchange(last_error_, cudaSuccess);
}

void Thread::drop_outdated() {
  if (stays(last_error_) && resets_seen_ != resets.load(std::memory_order_relaxed))
    last_error_ = cudaSuccess;
}

Thread& this_thread() {
  static thread_local Thread thread;
  return thread;
}

void note_reset() {
  resets.fetch_add(1, std::memory_order_relaxed);
}

std::uint64_t reset_count() {
  return resets.load(std::memory_order_relaxed);
}

}  // namespace berth::cudart
