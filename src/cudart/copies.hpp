// SPDX-License-Identifier: Apache-2.0
// Copies and fills by driver functions: the function for each kind, and volumes as rows.
// Source: CUDA Runtime API, "Memory Management", "API synchronization behavior".
#pragma once

#include <cstddef>
#include <cuda_runtime_api.h>

#include "cudart/driver.hpp"

namespace berth::cudart {

/// When a call returns.
enum class Mode {
  synchronous,   ///< on the null stream, with the driver's synchronous functions
  asynchronous,  ///< on `Order::stream`
};

struct Order {
  Mode mode;
  CUstream stream;  ///< of an asynchronous call

  static Order now() { return {Mode::synchronous, nullptr}; }
  static Order on(CUstream stream) { return {Mode::asynchronous, stream}; }
};

struct Rows {
  void* destination;
  std::size_t destination_pitch;
  const void* source;
  std::size_t source_pitch;
  std::size_t width;
  std::size_t rows;
};

bool is_kind(cudaMemcpyKind kind);

// What the driver calls the memory on either side.
CUmemorytype source_type(cudaMemcpyKind kind);
CUmemorytype destination_type(cudaMemcpyKind kind);

CUresult copy(const Driver& driver, void* destination, const void* source, std::size_t bytes,
              cudaMemcpyKind kind, Order order);

CUresult copy_rows(const Driver& driver, const Rows& rows, cudaMemcpyKind kind, Order order);

}  // namespace berth::cudart
