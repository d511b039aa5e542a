// SPDX-License-Identifier: Apache-2.0
// Handles of cuBLAS, one for each stream that is at work. The stand-in computes with a kernel of
// this library.
#pragma once

#include "../core/ops.hpp"
#include "native_library.hpp"

namespace mini {

class BlasLibrary {
 public:
  explicit BlasLibrary(std::size_t handles_max = 0)
      : handles_(library().runtime, options(handles_max)) {}

  [[nodiscard]] berth::HandlePool<NativeHandle>& handles() { return handles_; }

  /// The product of two matrices on the stream that `handle` is bound to.
  Tensor multiply(NativeHandle& handle, const Tensor& a, const Tensor& b) {
    const berth::StreamGuard guard(*handle.stream);  // libraries use the thread's current device
    if (!native_.is_open()) return matmul(a, b);
    const int rows = int(a.shape()[0]);
    const int inner = int(a.shape()[1]);
    const int columns = int(b.shape()[1]);
    Tensor out({rows, columns}, a.device());
    const float one = 1;
    const float zero = 0;
    // cuBLAS has columns first: it computes the transposed product.
    native_.call<int(void*, int, int, int, int, int, const float*, const float*, int, const float*,
                     int, const float*, float*, int)>("cublasSgemm_v2", handle.native, 0, 0,
                                                      columns, rows, inner, &one, b.data(), columns,
                                                      a.data(), inner, &zero, out.data(), columns);
    return out;
  }

 private:
  berth::HandlePoolOptions<NativeHandle> options(std::size_t handles_max) {
    auto options = native_.handles("cublasCreate_v2", "cublasDestroy_v2", "cublasSetStream_v2");
    options.name = "cuBLAS";
    options.set_workspace = [this](NativeHandle& handle, void* data, std::size_t bytes) {
      if (!native_.is_open()) return;
      native_.call<int(void*, void*, std::size_t)>("cublasSetWorkspace_v2", handle.native, data,
                                                   bytes);
    };
    options.workspace_bytes = std::size_t{4} << 20;
    options.keeps_device_memory = false;  // it works in the memory that it is given
    options.handles_max = handles_max;
    return options;
  }

  const NativeLibrary native_{"libcublas.so", "libcublas.so.13", "libcublas.so.12"};
  berth::HandlePool<NativeHandle> handles_;
};

}  // namespace mini
