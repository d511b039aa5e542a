// SPDX-License-Identifier: Apache-2.0
// Handles of cuBLAS, one for each stream that is at work. Where there is no cuBLAS, as on the
// simulator, a stand-in computes with a kernel of the library.
#pragma once

#include <berth/handle_pool.hpp>
#include <dlfcn.h>

#include "../core/ops.hpp"

namespace mini {

/// A handle: cuBLAS's own, or the stand-in's.
struct Blas {
  void* native = nullptr;
  std::optional<berth::StreamRef> stream = std::nullopt;
};

class BlasLibrary {
 public:
  explicit BlasLibrary(std::size_t handles_max = 0)
      : file_(open()), handles_(library().runtime, options(handles_max)) {}

  [[nodiscard]] berth::HandlePool<Blas>& handles() { return handles_; }

  /// The product of two matrices on the stream that `handle` is bound to.
  Tensor multiply(Blas& handle, const Tensor& a, const Tensor& b) {
    const berth::StreamGuard guard(*handle.stream);  // libraries use the thread's current device
    if (handle.native == nullptr) return matmul(a, b);
    const int rows = int(a.shape()[0]);
    const int inner = int(a.shape()[1]);
    const int columns = int(b.shape()[1]);
    Tensor out({rows, columns}, a.device());
    const float one = 1;
    const float zero = 0;
    // cuBLAS has columns first: it computes the transposed product.
    call<int(void*, int, int, int, int, int, const float*, const float*, int, const float*, int,
             const float*, float*, int)>("cublasSgemm_v2", handle.native, 0, 0, columns, rows,
                                         inner, &one, b.data(), columns, a.data(), inner, &zero,
                                         out.data(), columns);
    return out;
  }

 private:
  static void* open() {
    if (library().runtime.driver().name == "sim") return nullptr;
    for (const char* file : {"libcublas.so", "libcublas.so.13", "libcublas.so.12"})
      if (void* const opened = dlopen(file, RTLD_NOW)) return opened;
    return nullptr;
  }

  template <class Function, class... Values>
  void call(const char* name, Values... values) const {
    auto* const function = reinterpret_cast<Function*>(dlsym(file_, name));
    const int code = function == nullptr ? -1 : function(values...);
    if (code != 0)
      throw berth::NotSupported(std::string(name) + " failed with code " + std::to_string(code));
  }

  berth::HandlePoolOptions<Blas> options(std::size_t handles_max) {
    berth::HandlePoolOptions<Blas> options;
    options.name = "cuBLAS";
    options.create = [this] {
      Blas handle;
      if (file_ != nullptr) call<int(void**)>("cublasCreate_v2", &handle.native);
      return handle;
    };
    options.destroy = [this](Blas& handle) {
      if (handle.native != nullptr) call<int(void*)>("cublasDestroy_v2", handle.native);
    };
    options.bind = [this](Blas& handle, berth::StreamRef stream) {
      handle.stream = stream;
      if (handle.native != nullptr)
        call<int(void*, CUstream_st*)>("cublasSetStream_v2", handle.native, stream.native());
    };
    options.set_workspace = [this](Blas& handle, void* data, std::size_t bytes) {
      if (handle.native == nullptr) return;
      call<int(void*, void*, std::size_t)>("cublasSetWorkspace_v2", handle.native, data, bytes);
    };
    options.workspace_bytes = std::size_t{4} << 20;
    options.keeps_device_memory = false;  // it works in the memory that it is given
    options.handles_max = handles_max;
    return options;
  }

  void* const file_;
  berth::HandlePool<Blas> handles_;
};

}  // namespace mini
