// SPDX-License-Identifier: Apache-2.0
// Device memory of cuMemAlloc between processes, by handles of 64 bytes. The allocation moves to a
// memfd of its own when the first handle is made; a handle names the process and its descriptor,
// which another process of the same user and PID namespace opens. Guarded by sim::mutex.
// Source: CUDA Driver API, cuIpcGetMemHandle, cuIpcOpenMemHandle, cuIpcCloseMemHandle.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <map>
#include <memory>

#include "sim/device/context.hpp"
#include "sim/memory/address_space.hpp"
#include "sim/memory/shared_memory.hpp"

namespace berth::sim {

struct State;

/// An allocation of another process that this one has opened.
struct IpcImport {
  std::uint64_t segment;  ///< the start of the mapping of its block
  Handle context;         ///< the context that opened it
  std::uint64_t offset;   ///< in the block
  int references;         ///< the number of opens
};
using IpcImports = std::map<std::uint64_t, IpcImport>;  // by the address returned to the program

/// The handle of the allocation `range`.
CUresult make_ipc_handle(State& state, const Range& range, CUipcMemHandle& handle);
/// Opens it in `context`.
CUresult open_ipc_handle(State& state, Context& context, const CUipcMemHandle& handle,
                         CUdeviceptr& pointer);
/// Unmaps `range`, of RangeKind::imported.
void drop_import(State& state, const Range& range);

}  // namespace berth::sim
