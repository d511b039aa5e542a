// SPDX-License-Identifier: Apache-2.0
// Measures the overhead of an adapter. Nanoseconds for one allocation of a cached block of 64 KiB
// and its free, one thread; the peer `direct` is the same by berth's C++ functions, with the same
// allocator and stream. berth does not own the stream, because users of an adapter have their own;
// `direct` refers to it once, outside the loop.
//
// Links the shared library, as programs with adapters do, and contains no part of berth.
#include <cstdio>
#include <cstdlib>
#include <memory_resource>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>

#include "berth/berth.h"
#include "berth/bytes.hpp"
#include "berth/pinned_memory_resource.hpp"
#include "berth/runtime.hpp"

#include "torch/berth_torch.h"

#ifdef BERTH_HAS_CUDA_MR
#include "berth/cuda_memory_resource.hpp"
#endif
#ifdef BERTH_HAS_THRUST
#include "berth/thrust_allocator.hpp"
#endif

namespace {

using namespace berth;

constexpr int kSkipped = 77;
constexpr std::size_t kBytes = 64_KiB;

void check(berth_status status) {
  if (status != BERTH_OK) throw InvalidArgument(berth_last_error_message());
}

/// The Runtime of libberth_torch, which all adapters use, and a stream of the program.
class Program {
 public:
  Program() : handle_(berth_torch_runtime()) {
    if (handle_ == nullptr || !runtime().devices().is_available()) return;
    runtime().devices().set_current(device());
    using Create = int (*)(CUstream_st**, unsigned);
    const auto create = reinterpret_cast<Create>(runtime().driver_function("cuStreamCreate", 2000));
    constexpr unsigned kNonBlocking = 1;
    is_usable_ = create != nullptr && create(&stream_, kNonBlocking) == 0;
  }

  [[nodiscard]] bool is_usable() const { return is_usable_; }
  [[nodiscard]] bool is_simulated() const { return runtime().driver().name == "sim"; }
  [[nodiscard]] Device device() const { return Device::cuda(0); }
  [[nodiscard]] berth_runtime* handle() const { return handle_; }
  [[nodiscard]] Runtime& runtime() const { return runtime_of(handle_); }
  [[nodiscard]] CUstream_st* native() const { return stream_; }
  [[nodiscard]] StreamRef stream() const { return runtime().stream(device(), stream_); }

 private:
  berth_runtime* const handle_;
  CUstream_st* stream_ = nullptr;
  bool is_usable_ = false;
};

class Direct {
 public:
  explicit Direct(const Program& program)
      : memory_(program.runtime().memory(program.device())), stream_(program.stream()) {}
  void step() { memory_.deallocate(memory_.allocate_raw(kBytes, stream_)); }

 private:
  DeviceAllocator& memory_;
  const StreamRef stream_;
};

class DirectPinned {
 public:
  explicit DirectPinned(const Program& program) : memory_(program.runtime().pinned_memory()) {}
  void step() { memory_.deallocate(memory_.allocate_raw(kBytes)); }

 private:
  PinnedAllocator& memory_;
};

class C {
 public:
  explicit C(const Program& program) {
    check(berth_allocator_get_device(program.handle(), berth_device_cuda(0), &memory_));
    check(berth_stream_from_native(program.handle(), berth_device_cuda(0), program.native(),
                                   &stream_));
  }
  void step() {
    void* data = nullptr;
    check(berth_allocator_allocate(memory_, kBytes, stream_, &data));
    check(berth_allocator_deallocate(memory_, data));
  }

 private:
  berth_allocator* memory_ = nullptr;
  berth_stream stream_{};
};

class Torch {
 public:
  explicit Torch(const Program& program) : stream_(program.native()) {}
  void step() {
    berth_torch_free(berth_torch_alloc_or_throw(kBytes, 0, stream_), kBytes, 0, stream_);
  }

 private:
  CUstream_st* const stream_;
};

class Pmr {
 public:
  explicit Pmr(const Program& program) : pinned_(program.runtime().pinned_memory()) {}
  void step() { memory_->deallocate(memory_->allocate(kBytes), kBytes); }

 private:
  PinnedMemoryResource pinned_;
  std::pmr::memory_resource* const memory_ = &pinned_;
};

#ifdef BERTH_HAS_CUDA_MR
class CudaMr {
 public:
  explicit CudaMr(const Program& program)
      : memory_(program.runtime(), program.device()), stream_(program.native()) {}
  void step() {
#if CCCL_VERSION >= 3'001'000
    memory_.deallocate(stream_, memory_.allocate(stream_, kBytes), kBytes);
#else
    memory_.deallocate_async(memory_.allocate_async(kBytes, kBlockAlignment, stream_), kBytes,
                             kBlockAlignment, stream_);
#endif
  }

 private:
  DeviceMemoryResource memory_;
  const cuda::stream_ref stream_;
};
#endif

#ifdef BERTH_HAS_THRUST
class Thrust {
 public:
  explicit Thrust(const Program& program) : memory_(program.runtime(), program.stream()) {}
  void step() { memory_.deallocate(memory_.allocate(kBytes), kBytes); }

 private:
  ThrustAllocator<char> memory_;
};
#endif

template <class Pair>
void add(const Program& program, const std::string& name) {
  auto* const added =
      benchmark::RegisterBenchmark(name.c_str(), [&program](benchmark::State& state) {
        try {
          Pair pair(program);
          pair.step();
          for (auto _ : state) pair.step();
          state.SetItemsProcessed(state.iterations());
        } catch (const std::exception& error) {
          state.SkipWithError(error.what());
        }
      });
  if (!program.is_simulated()) added->UseRealTime();
}

template <class Adapter, class Called>
void add_pair(const Program& program, const std::string& figure) {
  add<Adapter>(program, figure + "/berth");
  add<Called>(program, figure + "/direct");
}

void add_all(const Program& program) {
  add_pair<C, Direct>(program, "adapter_c");
  add_pair<Torch, Direct>(program, "adapter_torch");
  add_pair<Pmr, DirectPinned>(program, "adapter_pmr");
#ifdef BERTH_HAS_CUDA_MR
  add_pair<CudaMr, Direct>(program, "adapter_cuda_mr");
#else
  std::fprintf(stderr, "left out: adapter_cuda_mr: built without CCCL's headers\n");
#endif
#ifdef BERTH_HAS_THRUST
  add_pair<Thrust, Direct>(program, "adapter_thrust");
#else
  std::fprintf(stderr, "left out: adapter_thrust: built without Thrust's headers\n");
#endif
}

}  // namespace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  constexpr int keep_what_is_set = 0;
  setenv("BERTH_DRIVER", "sim", keep_what_is_set);
  setenv("BERTH_SIM", "poison=off,checks=off", keep_what_is_set);
  const Program program;
  if (!program.is_usable()) {
    std::fprintf(stderr, "skipped: the driver is not usable, or has no device\n");
    return kSkipped;
  }
  const Runtime& runtime = program.runtime();
  benchmark::AddCustomContext("driver", runtime.driver().name);
  benchmark::AddCustomContext("device", runtime.devices().physical_devices().front().name);
  add_all(program);
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
