// SPDX-License-Identifier: Apache-2.0
// Source: CUDA Driver API, "Graph Management", cuUserObjectCreate and the functions after it.
#include <climits>

#include "sim/call.hpp"
#include "sim/graph/user_object.hpp"

namespace berth::sim {
namespace {

bool is_count(unsigned count) {
  return count != 0 && count <= unsigned{INT_MAX};
}

/// Calls `use` with the object and the graph; invalid handles are refused.
template <class Use>
CUresult with_graph(Function function, CUgraph graph, CUuserObject object, unsigned count,
                    const Use& use) {
  Call call(function, Needs::driver);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  Graph* holder = call.state().graphs.find(to_handle(graph));
  UserObject* found = call.state().user_objects.find(to_handle(object));
  if (holder == nullptr || found == nullptr || !is_count(count)) return CUDA_ERROR_INVALID_VALUE;
  return use(call.state(), *holder, *found);
}

}  // namespace

CUresult berth_sim_cuUserObjectCreate(CUuserObject* object, void* data, CUhostFn destroy,
                                      unsigned references, unsigned flags) {
  Call call(Function::k_cuUserObjectCreate, Needs::driver);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  if (object == nullptr || destroy == nullptr || !is_count(references) ||
      flags != CU_USER_OBJECT_NO_DESTRUCTOR_SYNC)
    return CUDA_ERROR_INVALID_VALUE;
  *object = from_handle<CUuserObject>(
      call.state().user_objects.create(destroy, data, std::uint64_t{references}).handle);
  return CUDA_SUCCESS;
}

CUresult berth_sim_cuUserObjectRetain(CUuserObject object, unsigned count) {
  Call call(Function::k_cuUserObjectRetain, Needs::driver);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  UserObject* found = call.state().user_objects.find(to_handle(object));
  if (found == nullptr || !is_count(count)) return CUDA_ERROR_INVALID_VALUE;
  found->references += count;
  return CUDA_SUCCESS;
}

CUresult berth_sim_cuUserObjectRelease(CUuserObject object, unsigned count) {
  Call call(Function::k_cuUserObjectRelease, Needs::driver);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  UserObject* found = call.state().user_objects.find(to_handle(object));
  if (found == nullptr || !is_count(count) || count > found->references)
    return CUDA_ERROR_INVALID_VALUE;
  release(call.state(), *found, count);
  return CUDA_SUCCESS;
}

CUresult berth_sim_cuGraphRetainUserObject(CUgraph graph, CUuserObject object, unsigned count,
                                           unsigned flags) {
  return with_graph(Function::k_cuGraphRetainUserObject, graph, object, count,
                    [&](State&, Graph& holder, UserObject& found) {
                      const bool moves = flags == CU_GRAPH_USER_OBJECT_MOVE;
                      if (flags != 0 && !moves) return CUDA_ERROR_INVALID_VALUE;
                      if (moves && count > found.references) return CUDA_ERROR_INVALID_VALUE;
                      if (!moves) found.references += count;
                      holder.held[found.handle] += count;
                      return CUDA_SUCCESS;
                    });
}

CUresult berth_sim_cuGraphReleaseUserObject(CUgraph graph, CUuserObject object, unsigned count) {
  return with_graph(Function::k_cuGraphReleaseUserObject, graph, object, count,
                    [&](State& state, Graph& holder, UserObject& found) BERTH_UNDER_LOCK {
                      const auto held = holder.held.find(found.handle);
                      if (held == holder.held.end() || count > held->second)
                        return CUDA_ERROR_INVALID_VALUE;
                      held->second -= count;
                      if (held->second == 0) holder.held.erase(held);
                      release(state, found, count);
                      return CUDA_SUCCESS;
                    });
}

}  // namespace berth::sim
