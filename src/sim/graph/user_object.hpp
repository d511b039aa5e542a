// SPDX-License-Identifier: Apache-2.0
// User objects: what a program ties to the life of graphs. Graphs and executable graphs hold
// references, and when the last one goes the program's destructor is called. Guarded by sim::mutex.
// Source: CUDA Programming Guide, "CUDA User Objects"; CUDA Driver API, cuUserObjectCreate.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "base/mutex.hpp"
#include "sim/handle_table.hpp"
#include "sim/lock.hpp"
#include "sim/work/operation.hpp"

namespace berth::sim {

struct GraphMemory;
struct State;

struct UserObject {
  UserObject(Handle handle_, CUhostFn destroy_, void* data_, std::uint64_t references_)
      : handle(handle_), destroy(destroy_), data(data_), references(references_) {}

  Handle handle;
  CUhostFn destroy;
  void* data;
  std::uint64_t references;  ///< of the program and of graphs
  Clock done = {};           ///< the work of the executable graphs that had references
};

using UserObjects = HandleTable<UserObject, HandleKind::user_object>;

/// How many references of each object a graph holds.
using HeldObjects = std::map<Handle, std::uint64_t>;

/// Resources that running work still uses: of an executable graph that was destroyed, or memory of
/// a graph that was freed.
struct HeldUntil {
  Submitted done;
  HeldObjects objects;
  std::vector<std::shared_ptr<GraphMemory>> memory;
};

/// `count` references less; with the last the destructor is called, on the thread of host
/// functions, where it may not call the driver. It comes after all work of executable graphs that
/// had references: the last of each is before `done`.
void release(State& state, UserObject& object, std::uint64_t count) BERTH_REQUIRES(mutex);
void release(State& state, const HeldObjects& objects, const Clock& done) BERTH_REQUIRES(mutex);
/// Once more for each reference in `objects`.
void retain(State& state, const HeldObjects& objects);
/// Releases what was held until work that is done by now.
void release_completed(State& state) BERTH_REQUIRES(mutex);

}  // namespace berth::sim
