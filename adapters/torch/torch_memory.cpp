// SPDX-License-Identifier: Apache-2.0
#include "torch/torch_memory.hpp"

#include <cstdio>
#include <exception>
#include <utility>

#include "berth/berth.h"
#include "berth/error.hpp"

#include "device_wait.hpp"

namespace berth::torch {
namespace {

void print_report(void*, berth_severity severity, const char* message) {
  print(severity == BERTH_SEVERITY_ERROR ? "error" : "warning", message);
}

std::vector<DeviceContext*> contexts_of(const DeviceRegistry& devices) {
  std::vector<DeviceContext*> contexts;
  for (int index = 0; index < devices.count(); ++index)
    contexts.push_back(&devices.context(Device::cuda(index)));
  return contexts;
}

}  // namespace

void print(const char* severity, const char* text) {
  std::fprintf(stderr, "berth: %s: %s\n", severity, text);
}

Memory& Memory::get() {
  static auto* const memory = new Memory;
  return *memory;
}

Memory::Memory()
    : handle_(create(this)),
      runtime_(runtime_of(handle_)),
      contexts_(contexts_of(runtime_.devices())),
      used_(contexts_.size()) {}

berth_runtime* Memory::create(Memory* memory) {
  berth_runtime_options options = BERTH_RUNTIME_OPTIONS_INIT;
  options.report = print_report;
  options.on_pressure = [](void* self, std::size_t) {
    try {
      return static_cast<Memory*>(self)->close_released();
    } catch (const std::exception& error) {
      print("warning", error.what());
      return false;
    }
  };
  options.on_pressure_user = memory;
  berth_runtime* created = nullptr;
  if (berth_runtime_create(&options, &created) != BERTH_OK)
    throw InvalidArgument(berth_last_error_message());
  return created;
}

void* Memory::allocate(std::size_t bytes, int device, CUstream_st* stream) {
  DeviceAllocator& memory = memory_of(device);
  const StreamRef on(*contexts_[static_cast<std::size_t>(device)], stream);
  if (pools_.has_routes())
    if (auto pool = pools_.find(device, stream)) return pool->allocate_raw(bytes, on);
  return memory.allocate_raw(bytes, on);
}

void Memory::free(void* data, int device) {
  memory_of(device).deallocate(data);
}

void Memory::free(void* data) {
  if (data == nullptr) return;
  if (DeviceAllocator* const memory = memory_with(data)) memory->deallocate(data);
}

DeviceAllocator* Memory::memory_with(const void* data) {
  if (!uses_several_.load(std::memory_order_acquire)) [[likely]] {
    if (auto* const only = first_used_.load(std::memory_order_acquire)) [[likely]]
      return only;
  }
  if (pools_.is_child()) return nullptr;
  DeviceAllocator* found = nullptr;
  for_each_used([&](DeviceContext&, DeviceAllocator& memory) {
    if (memory.owns(data)) found = &memory;
  });
  if (found == nullptr) throw InvalidArgument("the pointer is in no memory of berth");
  return found;
}

DeviceAllocator& Memory::first_memory_of(int device) {
  DeviceAllocator& memory = runtime_.memory(Device::cuda(device));
  // Before other threads use the device, and again for one whose first use is at the same time.
  share_with_used(device);
  used_[static_cast<std::size_t>(device)].store(&memory);
  DeviceAllocator* none = nullptr;
  if (!first_used_.compare_exchange_strong(none, &memory) && none != &memory) uses_several_ = true;
  share_with_used(device);
  return memory;
}

void Memory::share_with_used(int device) {
  for (std::size_t index = 0; index < used_.size(); ++index) {
    const int other = static_cast<int>(index);
    if (other == device || used_[index].load() == nullptr) continue;
    try_enable_peer_access(device, other);
    try_enable_peer_access(other, device);
  }
}

void Memory::try_enable_peer_access(int user, int owner) {
  try {
    enable_peer_access(user, owner);
  } catch (const NotSupported&) {  // PyTorch copies by way of the host then
  } catch (const std::exception& error) {
    print("warning", error.what());
  }
}

void Memory::enable_peer_access(int user, int owner) {
  runtime_.enable_peer_access(Device::cuda(user), Device::cuda(owner));
}

template <class Visit>
void Memory::for_each_used(Visit visit) {
  for (std::size_t index = 0; index < used_.size(); ++index) {
    if (auto* const memory = used_[index].load(std::memory_order_acquire))
      visit(*contexts_[index], *memory);
  }
}

void Memory::record_stream(void* data, CUstream_st* stream) {
  for_each_used([&](DeviceContext& context, DeviceAllocator& memory) {
    if (memory.owns(data)) memory.record_stream(data, {context, stream});
  });
}

void* Memory::base(void* data, std::size_t* bytes) {
  const auto block = runtime_.find(data);
  if (!block) throw InvalidArgument("the pointer is in no live block of berth");
  if (bytes != nullptr) *bytes = block->bytes;
  return block->data;
}

void Memory::trim() {
  close_released();
  for_each_used([](DeviceContext&, DeviceAllocator& memory) { memory.trim(); });
}

void Memory::limit(double fraction, int device) {
  const Device of = Device::cuda(device);
  const auto asked = MemoryAmount::part_of_device(fraction);
  MemoryLimits limits = runtime_.options().device_allocator.limits;
  const std::size_t device_bytes = runtime_.devices().memory_info(of).bytes_total;
  if (!limits.bytes_reserved_max ||
      asked.bytes(device_bytes) < limits.bytes_reserved_max->bytes(device_bytes))
    limits.bytes_reserved_max = asked;
  runtime_.memory(of).set_limits(limits);
}

void Memory::begin_pool(int device, PoolId id, StreamFilter filter) {
  DeviceAllocator& memory = memory_of(device);
  pools_.begin(device, id, std::move(filter), memory);
}

void Memory::end_pool(int device, PoolId id) {
  // berth has seen their captures, which are over now. It would see that only when a call names the
  // stream again, and would not wait for the device until then.
  for (CUstream_st* const stream : pools_.end(device, id))
    static_cast<void>(
        StreamRef(*contexts_[static_cast<std::size_t>(device)], stream).is_capturing());
}

namespace {

struct CheckpointOfPool final : Checkpoint {
  explicit CheckpointOfPool(PoolCheckpoint blocks_) : blocks(std::move(blocks_)) {}

  const PoolCheckpoint blocks;
};

}  // namespace

std::shared_ptr<const Checkpoint> Memory::checkpoint(int device, PoolId id) {
  return std::make_shared<const CheckpointOfPool>(pools_.of(device, id).checkpoint());
}

Restored Memory::restore(int device, PoolId id, const Checkpoint& checkpoint) {
  RestoredBlocks done =
      pools_.of(device, id).restore(static_cast<const CheckpointOfPool&>(checkpoint).blocks);
  return {std::move(done.freed), std::move(done.allocated), std::move(done.kept)};
}

bool Memory::close_released() {
  if (pools_.has_routes()) return false;  // a capture may be under way, which a wait would break
  const std::vector<MemoryPool> released = pools_.take_released();
  if (released.empty()) return false;
  for (const MemoryPool& pool : released) {
    if (try_wait_until_idle(runtime_, pool.device()) != 0)
      throw InvalidArgument("the device of " + pool.name() + " does not become idle");
  }
  return true;
}

}  // namespace berth::torch
