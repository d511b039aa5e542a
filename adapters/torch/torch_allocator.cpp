// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <cstdio>
#include <exception>
#include <vector>

#include "berth/runtime.hpp"

#include "torch/berth_torch.h"

namespace {

using namespace berth;

void print(const char* severity, const char* text) {
  std::fprintf(stderr, "berth: %s: %s\n", severity, text);
}

void print_report(const Report& report) {
  print(report.severity == Severity::error ? "error" : "warning", report.message.c_str());
}

/// The Runtime, and which devices PyTorch has used. Threads: all calls from any.
class TorchMemory {
 public:
  static TorchMemory& get() {
    // Never destroyed: blocks are freed while, and after, what is static ends.
    static auto* const memory = new TorchMemory;
    return *memory;
  }

  void* allocate(std::size_t bytes, int device, CUstream_st* stream) {
    const Device of = Device::cuda(device);
    DeviceAllocator& memory = runtime_.memory(of);
    used_[static_cast<std::size_t>(device)].store(true, std::memory_order_relaxed);
    return memory.allocate_raw(bytes, runtime_.stream(of, stream));
  }

  void free(void* data, int device) { runtime_.memory(Device::cuda(device)).deallocate(data); }

  void record_stream(void* data, CUstream_st* stream) {
    for_each_used([&](Device device, DeviceAllocator& memory) {
      if (memory.owns(data)) memory.record_stream(data, runtime_.stream(device, stream));
    });
  }

  void trim() {
    for_each_used([](Device, DeviceAllocator& memory) { memory.trim(); });
  }

  void limit(double fraction, int device) {
    const Device of = Device::cuda(device);
    const auto asked = MemoryAmount::part_of_device(fraction);
    MemoryLimits limits = runtime_.options().device_allocator.limits;
    const std::size_t device_bytes = runtime_.devices().memory_info(of).bytes_total;
    if (!limits.bytes_reserved_max ||
        asked.bytes(device_bytes) < limits.bytes_reserved_max->bytes(device_bytes))
      limits.bytes_reserved_max = asked;
    runtime_.memory(of).set_limits(limits);
  }

 private:
  TorchMemory()
      : runtime_(options()), used_(static_cast<std::size_t>(runtime_.devices().count())) {}

  static RuntimeOptions options() {
    RuntimeOptions options;
    options.report = print_report;
    return options;
  }

  template <class Visit>
  void for_each_used(Visit visit) {
    for (std::size_t index = 0; index < used_.size(); ++index) {
      if (!used_[index].load(std::memory_order_relaxed)) continue;
      const Device device = Device::cuda(static_cast<int>(index));
      visit(device, runtime_.memory(device));
    }
  }

  Runtime runtime_;
  std::vector<std::atomic<bool>> used_;
};

/// What `call` returns. No exception goes on to its caller, which may be written in C or Python.
template <class Call>
auto with_memory(Call call) noexcept -> decltype(call(TorchMemory::get())) {
  try {
    return call(TorchMemory::get());
  } catch (const std::exception& error) {
    print("error", error.what());
  } catch (...) {
    print("error", "a non-standard exception");
  }
  return decltype(call(TorchMemory::get()))();
}

}  // namespace

void* berth_torch_alloc(size_t bytes, int device, void* stream) {
  return with_memory([=](TorchMemory& memory) {
    return memory.allocate(bytes, device, static_cast<CUstream_st*>(stream));
  });
}

void* berth_torch_alloc_or_throw(size_t bytes, int device, void* stream) {
  return TorchMemory::get().allocate(bytes, device, static_cast<CUstream_st*>(stream));
}

void berth_torch_free(void* data, size_t, int device, void*) {
  if (data == nullptr) return;
  with_memory([=](TorchMemory& memory) { memory.free(data, device); });
}

void berth_torch_record_stream(void* data, void* stream) {
  if (data == nullptr) return;
  with_memory(
      [=](TorchMemory& memory) { memory.record_stream(data, static_cast<CUstream_st*>(stream)); });
}

void berth_torch_reset() {
  with_memory([](TorchMemory& memory) { memory.trim(); });
}

void berth_torch_memory_fraction(double fraction, int device) {
  with_memory([=](TorchMemory& memory) { memory.limit(fraction, device); });
}
