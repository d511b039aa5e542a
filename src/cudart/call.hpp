// SPDX-License-Identifier: Apache-2.0
// The common part of every runtime function: loads and initializes the driver, makes a context
// current, and records the error for cudaGetLastError().
#pragma once

#include <cuda_runtime_api.h>
#include <new>
#include <utility>

#include "cudart/contexts.hpp"
#include "cudart/driver.hpp"
#include "cudart/thread.hpp"

namespace berth::cudart {

enum class Needs {
  driver,   ///< an initialized driver
  context,  ///< also a current context
};

/// Driver and runtime share their error codes.
inline cudaError_t to_error(CUresult result) {
  return static_cast<cudaError_t>(result);
}
inline cudaError_t to_error(cudaError_t error) {
  return error;
}

/// The driver as the call needs it; null with an error if it is unavailable.
const Driver* prepare(Needs needs, cudaError_t& error);

/// Implements a call: `body` gets the driver, and returns a CUresult or a cudaError_t.
template <class Body>
cudaError_t call(Needs needs, Body&& body) noexcept {
  cudaError_t error = cudaSuccess;
  try {
    if (const Driver* driver = prepare(needs, error)) error = to_error(body(*driver));
  } catch (const std::bad_alloc&) {
    error = cudaErrorMemoryAllocation;
  } catch (...) {
    error = cudaErrorUnknown;
  }
  return this_thread().note(error);
}

/// The same for a function that forwards its arguments to one driver function.
template <class... Parameters, class... Arguments>
cudaError_t forward(Needs needs, CUresult (*Driver::*function)(Parameters...),
                    Arguments... arguments) noexcept {
  return call(needs, [&](const Driver& driver) { return (driver.*function)(arguments...); });
}

/// Converts a handle or structure of the runtime to that of the driver, which is the same type or
/// has the same layout.
template <class To, class From>
To same(From* pointer) {
  return reinterpret_cast<To>(pointer);
}

inline CUdeviceptr address(const void* pointer) {
  return reinterpret_cast<CUdeviceptr>(pointer);
}

}  // namespace berth::cudart
