// SPDX-License-Identifier: Apache-2.0
#include "sim/memory/ipc_memory.hpp"

#include <cstring>
#include <unistd.h>

#include "base/arithmetic.hpp"
#include "sim/state.hpp"

namespace berth::sim {
namespace {

constexpr char kIpcMagic[8] = {'b', 'e', 'r', 't', 'h', 'i', 'p', 'c'};

/// The content of a handle.
struct Named {
  char magic[sizeof(kIpcMagic)];
  NamedFile file;
  std::uint64_t offset;
  std::uint64_t bytes;
};
static_assert(sizeof(Named) <= sizeof(CUipcMemHandle));

/// The memory behind `named`; null if there is none.
std::shared_ptr<SharedMemory> open_memory(const Named& named) {
  std::shared_ptr<SharedMemory> shared = named.file.open();
  const bool fits = shared != nullptr && named.offset <= shared->bytes() && named.bytes != 0 &&
                    named.bytes <= shared->bytes() - named.offset;
  return fits ? shared : nullptr;
}

Device* find_home(State& state, const Uuid& uuid) {
  for (const int slot : state.visible) {
    Device& device = state.devices[static_cast<std::size_t>(slot)];
    if (device.facts.uuid == uuid) return &device;
  }
  return nullptr;
}

/// The address at which `context` has it open; 0 if it has not.
CUdeviceptr find_open(State& state, const Context& context, const SharedMemory& shared,
                      std::uint64_t offset) {
  for (const auto& [pointer, import] : state.ipc_imports) {
    const PhysicalBlock& block = *state.addresses.find_start(pointer)->block;
    if (import.context == context.handle && import.offset == offset &&
        block.shared->is_same(shared))
      return pointer;
  }
  return 0;
}

}  // namespace

CUresult make_ipc_handle(State& state, const Range& range, CUipcMemHandle& handle) {
  Device& device = state.devices[static_cast<std::size_t>(range.device)];
  PhysicalBlock& block = *range.block;
  const auto move = [&](std::span<const std::byte> from, const std::byte* to) {
    state.races.move(from, to);
  };
  if (block.shared == nullptr && !device.memory->share(block, device.facts.uuid, move))
    return CUDA_ERROR_OUT_OF_MEMORY;
  Named named{{}, NamedFile::of(*block.shared), range.block_offset, range.bytes};
  std::memcpy(named.magic, kIpcMagic, sizeof(kIpcMagic));
  handle = {};
  std::memcpy(handle.reserved, &named, sizeof(named));
  return CUDA_SUCCESS;
}

CUresult open_ipc_handle(State& state, Context& context, const CUipcMemHandle& handle,
                         CUdeviceptr& pointer) {
  Named named{};
  std::memcpy(&named, handle.reserved, sizeof(named));
  if (std::memcmp(named.magic, kIpcMagic, sizeof(kIpcMagic)) != 0) return CUDA_ERROR_INVALID_HANDLE;
  if (named.file.process == getpid()) return CUDA_ERROR_INVALID_CONTEXT;
  const std::shared_ptr<SharedMemory> shared = open_memory(named);
  if (shared == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  Device* device = find_home(state, shared->uuid());
  if (device == nullptr || !is_aligned(shared->bytes(), state.config.granularity))
    return CUDA_ERROR_MAP_FAILED;
  if (const CUdeviceptr open = find_open(state, context, *shared, named.offset); open != 0) {
    ++state.ipc_imports.at(open).references;
    pointer = open;
    return CUDA_SUCCESS;
  }
  const int slot = device->facts.slot;
  if (slot != context.device && !state.config.peer) return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
  const auto segment = state.addresses.arena.reserve(shared->bytes(), state.config.granularity);
  if (!segment) return CUDA_ERROR_OUT_OF_MEMORY;
  PhysicalBlock& block = state.blocks.create(slot, shared->bytes());
  if (!device->memory->adopt(block, shared)) {
    state.blocks.erase(block.handle);
    state.addresses.arena.release(*segment, shared->bytes());
    return CUDA_ERROR_MAP_FAILED;
  }
  if (slot != context.device) context.peers |= device_bit(slot);
  pointer = *segment + named.offset;
  state.addresses.add({.kind = RangeKind::imported,
                       .start = pointer,
                       .bytes = named.bytes,
                       .context = context.handle,
                       .device = slot,
                       .block = &block,
                       .block_offset = named.offset,
                       .readers = device_bit(slot),
                       .writers = device_bit(slot),
                       .made_at = state.stacks.here()});
  state.ipc_imports.emplace(pointer, IpcImport{*segment, context.handle, named.offset, 1});
  return CUDA_SUCCESS;
}

void drop_import(State& state, const Range& range) {
  PhysicalBlock& block = *range.block;
  const std::uint64_t pointer = range.start;
  state.addresses.arena.release(state.ipc_imports.at(pointer).segment, block.bytes);
  state.ipc_imports.erase(pointer);
  state.ended_memory.note(state, range);
  state.addresses.remove(pointer);
  release_block(state, block);
}

}  // namespace berth::sim
