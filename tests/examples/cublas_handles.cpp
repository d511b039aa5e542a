// SPDX-License-Identifier: Apache-2.0
// cuBLAS through a berth::HandlePool: matrices are multiplied on two streams at once, each with a
// handle and a workspace of the pool's. Needs nothing of cuBLAS to compile: what it uses is
// declared here, and found with dlopen().
#include <array>
#include <berth/berth.hpp>
#include <cstddef>
#include <cstdio>
#include <dlfcn.h>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

constexpr int kSkipped = 77;

// Source: cuBLAS Library, "cuBLAS Datatypes Reference", "cuBLAS Helper Function Reference".
using CublasHandle = struct CublasContext*;
using CublasStatus = int;              // 0: success
constexpr int kCublasNoTranspose = 0;  // CUBLAS_OP_N

/// The functions of cuBLAS that this program calls.
struct Cublas {
  CublasStatus (*create)(CublasHandle*);
  CublasStatus (*destroy)(CublasHandle);
  CublasStatus (*set_stream)(CublasHandle, CUstream_st*);
  CublasStatus (*set_workspace)(CublasHandle, void*, std::size_t);
  CublasStatus (*sgemm)(CublasHandle, int, int, int, int, int, const float*, const float*, int,
                        const float*, int, const float*, float*, int);
};

/// Null where no version of cuBLAS can be loaded. Never unloaded.
void* load_cublas() {
  for (const char* name :
       {"libcublas.so.13", "libcublas.so.12", "libcublas.so.11", "libcublas.so"}) {
    if (void* library = dlopen(name, RTLD_NOW | RTLD_LOCAL)) return library;
  }
  return nullptr;
}

template <class Function>
void find(void* library, const char* symbol, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, symbol));
  if (function == nullptr) throw std::runtime_error(std::string("cuBLAS lacks ") + symbol);
}

Cublas functions_of(void* library) {
  Cublas cublas{};
  find(library, "cublasCreate_v2", cublas.create);
  find(library, "cublasDestroy_v2", cublas.destroy);
  find(library, "cublasSetStream_v2", cublas.set_stream);
  find(library, "cublasSetWorkspace_v2", cublas.set_workspace);
  find(library, "cublasSgemm_v2", cublas.sgemm);
  return cublas;
}

/// cuBLAS says by a status what went wrong; a pool of handles wants an exception.
void require_success(CublasStatus status, const char* function) {
  if (status == 0) return;
  throw std::runtime_error(std::string(function) + " failed: cublasStatus_t " +
                           std::to_string(status));
}

berth::HandlePoolOptions<CublasHandle> handles_of(const Cublas& cublas) {
  return {
      .name = "cuBLAS",
      .create =
          [&cublas] {
            CublasHandle handle = nullptr;
            require_success(cublas.create(&handle), "cublasCreate");
            return handle;
          },
      .destroy =
          [&cublas](CublasHandle handle) {
            require_success(cublas.destroy(handle), "cublasDestroy");
          },
      .bind =
          [&cublas](CublasHandle handle, berth::StreamRef stream) {
            require_success(cublas.set_stream(handle, stream.native()), "cublasSetStream");
          },
      .set_workspace =
          [&cublas](CublasHandle handle, void* workspace, std::size_t bytes) {
            require_success(cublas.set_workspace(handle, workspace, bytes), "cublasSetWorkspace");
          },
      // What NVIDIA recommends for Hopper; other GPUs need less.
      .workspace_bytes = std::size_t{32} << 20,
      .keeps_device_memory = false,
  };
}

/// A square matrix on the device, all elements the same.
class Matrix {
 public:
  static constexpr int kSide = 256;

  Matrix(berth::Runtime& runtime, berth::StreamRef stream, float value)
      : runtime_(runtime),
        host_(std::size_t{kSide} * kSide, value),
        memory_(runtime.memory(stream.device()).allocate(bytes(), stream)) {
    runtime.copier().copy_async(memory_.data(), host_.data(), bytes(), stream);
  }
  [[nodiscard]] float* data() const { return static_cast<float*>(memory_.data()); }
  /// Whether each element is `value`, once all work of `stream` is done.
  [[nodiscard]] bool holds(float value, berth::StreamRef stream) {
    runtime_.copier().copy_async(host_.data(), memory_.data(), bytes(), stream);
    stream.sync();
    for (const float element : host_) {
      if (element != value) return false;
    }
    return true;
  }

 private:
  [[nodiscard]] std::size_t bytes() const { return host_.size() * sizeof(float); }

  berth::Runtime& runtime_;
  std::vector<float> host_;
  berth::Allocation memory_;
};

/// result = a * b, on the stream for which the handle was acquired.
void multiply(const Cublas& cublas, CublasHandle handle, const Matrix& a, const Matrix& b,
              const Matrix& result) {
  constexpr int n = Matrix::kSide;
  constexpr float one = 1.0F;
  constexpr float zero = 0.0F;
  require_success(cublas.sgemm(handle, kCublasNoTranspose, kCublasNoTranspose, n, n, n, &one,
                               a.data(), n, b.data(), n, &zero, result.data(), n),
                  "cublasSgemm");
}

int run(const Cublas& cublas, berth::Runtime& runtime) {
  const berth::Device device = berth::Device::cuda(0);
  berth::HandlePool<CublasHandle> handles(runtime, handles_of(cublas));
  const std::array<berth::StreamLease, 2> streams = {runtime.streams(device).acquire(),
                                                     runtime.streams(device).acquire()};
  for (int round = 0; round < 3; ++round) {
    std::vector<Matrix> results;
    for (int index = 0; index < 2; ++index) {
      const berth::StreamRef stream = streams[std::size_t(index)];
      const berth::StreamGuard guard(stream);  // cuBLAS works on the thread's current device
      const Matrix a(runtime, stream, 2.0F);
      const Matrix b(runtime, stream, float(index + 1));
      results.emplace_back(runtime, stream, -1.0F);
      // The operands go while the work is pending: what comes after it on the stream has their
      // memory.
      multiply(cublas, handles.acquire(stream), a, b, results.back());
    }
    for (int index = 0; index < 2; ++index) {
      const float expected = 2.0F * float(index + 1) * Matrix::kSide;
      if (results[std::size_t(index)].holds(expected, streams[std::size_t(index)])) continue;
      std::printf("round %d, stream %d: not every element is %g\n", round, index, double(expected));
      return 1;
    }
  }
  const berth::HandleCounters counters = handles.counters();
  std::printf("6 products on 2 streams; handles made: %llu, bound: %llu times\n",
              static_cast<unsigned long long>(counters.created),
              static_cast<unsigned long long>(counters.binds));
  return 0;
}

}  // namespace

int main() {
  berth::Runtime runtime;
  if (runtime.devices().count() == 0) {
    std::printf("skipped: no GPU: %s\n", runtime.driver().problem.c_str());
    return kSkipped;
  }
  if (runtime.driver().name == "sim") {
    std::printf("skipped: cuBLAS needs a GPU, and this driver is simulated\n");
    return kSkipped;
  }
  void* const library = load_cublas();
  if (library == nullptr) {
    std::printf("skipped: no cuBLAS: %s\n", dlerror());
    return kSkipped;
  }
  try {
    const Cublas cublas = functions_of(library);
    return run(cublas, runtime);
  } catch (const std::exception& error) {
    std::printf("failed: %s\n", error.what());
    return 1;
  }
}
