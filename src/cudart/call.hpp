// SPDX-License-Identifier: Apache-2.0
// What every function of the runtime does around its own part: finds the driver, initialises it,
// makes a context current, notes the error for cudaGetLastError().
#pragma once

#include <cuda_runtime_api.h>
#include <new>
#include <utility>

#include "cudart/contexts.hpp"
#include "cudart/driver.hpp"
#include "cudart/thread.hpp"

namespace berth::cudart {

enum class Needs {
  driver,   ///< an initialised driver
  context,  ///< also a current context
};

/// The codes of the driver are those of the runtime, by design of both.
inline cudaError_t to_error(CUresult result) {
  return static_cast<cudaError_t>(result);
}
inline cudaError_t to_error(cudaError_t error) {
  return error;
}

/// The driver, as the calling thread's call needs it; null with an error if it cannot be had.
const Driver* prepare(Needs needs, cudaError_t& error);

/// A whole call: `body` gets the driver, and returns a CUresult or a cudaError_t.
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

/// The same for a function that passes its arguments on to one driver function.
template <class... Parameters, class... Arguments>
cudaError_t forward(Needs needs, CUresult (*Driver::*function)(Parameters...),
                    Arguments... arguments) noexcept {
  return call(needs, [&](const Driver& driver) { return (driver.*function)(arguments...); });
}

/// The driver's name of what a handle or structure of the runtime is: the two are one type, or have
/// one layout.
template <class To, class From>
To same(From* pointer) {
  return reinterpret_cast<To>(pointer);
}

inline CUdeviceptr address(const void* pointer) {
  return reinterpret_cast<CUdeviceptr>(pointer);
}

}  // namespace berth::cudart
