// SPDX-License-Identifier: Apache-2.0
#include <exception>
#include <utility>

#include "torch/berth_torch.h"
#include "torch/torch_memory.hpp"

namespace {

using berth::torch::Memory;
using berth::torch::PoolId;
using berth::torch::StreamFilter;

/// What `call` returns. No exception goes on to its caller, which may be written in C or Python.
template <class Call>
auto with_memory(Call call) noexcept -> decltype(call(Memory::get())) {
  try {
    return call(Memory::get());
  } catch (const std::exception& error) {
    berth::torch::print("error", error.what());
  } catch (...) {
    berth::torch::print("error", "a non-standard exception");
  }
  return decltype(call(Memory::get()))();
}

}  // namespace

void* berth_torch_alloc(size_t bytes, int device, void* stream) {
  return with_memory([=](Memory& memory) {
    return memory.allocate(bytes, device, static_cast<CUstream_st*>(stream));
  });
}

void* berth_torch_alloc_or_throw(size_t bytes, int device, void* stream) {
  return Memory::get().allocate(bytes, device, static_cast<CUstream_st*>(stream));
}

void berth_torch_free(void* data, size_t, int device, void*) {
  if (data == nullptr) return;
  with_memory([=](Memory& memory) { memory.free(data, device); });
}

berth::torch::MemoryFunctions* berth_torch_functions(int version) {
  if (version != berth::torch::kMemoryFunctionsVersion) return nullptr;
  return with_memory([](Memory& memory) -> berth::torch::MemoryFunctions* { return &memory; });
}

berth_runtime* berth_torch_runtime() {
  return with_memory([](Memory& memory) { return memory.handle(); });
}

void berth_torch_init(int) {
  Memory::get();
}

void berth_torch_record_stream(void* data, void* stream) {
  if (data == nullptr) return;
  with_memory(
      [=](Memory& memory) { memory.record_stream(data, static_cast<CUstream_st*>(stream)); });
}

void berth_torch_reset() {
  with_memory([](Memory& memory) { memory.trim(); });
}

void berth_torch_memory_fraction(double fraction, int device) {
  with_memory([=](Memory& memory) { memory.limit(fraction, device); });
}

void* berth_torch_base_alloc(void* data, size_t* bytes) {
  return Memory::get().base(data, bytes);
}

void berth_torch_begin_allocate_to_pool(int device, PoolId id, StreamFilter filter) {
  Memory::get().begin_pool(device, id, std::move(filter));
}

void berth_torch_end_allocate_to_pool(int device, PoolId id) {
  with_memory([=](Memory& memory) { memory.end_pool(device, id); });
}

void berth_torch_release_pool(int device, PoolId id) {
  with_memory([=](Memory& memory) { memory.release_pool(device, id); });
}
