// SPDX-License-Identifier: Apache-2.0
// The execution of an executable graph: each chain is a hidden stream, and the scheduler runs them
// in any order that the edges allow. The launching stream has two operations: a fork, which the
// chains wait for, and a join, which waits for them.
#include "sim/graph/graph.hpp"
#include "sim/state.hpp"
#include "sim/work/hidden_stream.hpp"

namespace berth::sim {
namespace {

/// Whether all objects that `exec` refers to still exist.
bool is_whole(State& state, const GraphExec& exec) {
  for (const GraphExec::Chain& chain : exec.chains)
    if (chain.context != 0 && state.contexts.find(chain.context) == nullptr) return false;
  for (const GraphExec::Node& node : exec.nodes) {
    const auto* record = std::get_if<RecordWork>(&node.work);
    if (node.awaits != 0 && state.events.find(node.awaits) == nullptr) return false;
    if (record != nullptr && state.events.find(record->event) == nullptr) return false;
  }
  return true;
}

/// The first fault of the contexts of `exec`.
CUresult fault_of(State& state, const GraphExec& exec) {
  for (const GraphExec::Chain& chain : exec.chains) {
    const Context* context = state.contexts.find(chain.context);
    if (context != nullptr && context->sticky != CUDA_SUCCESS) return context->sticky;
  }
  return CUDA_SUCCESS;
}

std::vector<Stream*> make_chains(State& state, const GraphExec& exec, const Stream& launcher) {
  std::vector<Stream*> streams;
  for (const GraphExec::Chain& chain : exec.chains) {
    const Handle owner = chain.context != 0 ? chain.context : launcher.context;
    Stream& stream = open_hidden_stream(state, *state.contexts.find(owner), launcher);
    stream.order.floor = {launcher.order.ran_closed, true};
    streams.push_back(&stream);
  }
  return streams;
}

Submitted submit_memory_node(State& state, const GraphExec::Node& node, Stream& stream,
                             std::vector<Submitted> after, Handle context) BERTH_REQUIRES(mutex) {
  if (std::holds_alternative<ArriveWork>(node.work)) {
    after.push_back(node.memory->freed);  // the pages are mapped after the last free
    return submit_behind(state, stream, begin_allocation(state, node.memory, context), after);
  }
  const Submitted freed = submit_behind(state, stream, end_allocation(state, node.memory), after);
  note_free(state, node.memory, freed);
  return freed;
}

Submitted submit_node(State& state, const GraphExec::Node& node, Stream& stream,
                      const std::vector<Submitted>& after, Handle launcher_context)
    BERTH_REQUIRES(mutex) {
  if (node.memory) return submit_memory_node(state, node, stream, after, launcher_context);
  if (!node.is_enabled) return submit_behind(state, stream, WaitWork{}, after);
  const auto* record = std::get_if<RecordWork>(&node.work);
  if (record == nullptr) return submit_behind(state, stream, node.work, after);
  Event& event = *state.events.find(record->event);
  event.captured = {};
  event.record = Scheduler::next_ticket(stream);
  Submitted submitted = submit_behind(state, stream, begin_record(event), after);
  note_record(state, event, submitted.clock);
  return submitted;
}

const char* kind_of(const Work& work) {
  struct Kinds {
    const char* operator()(const WaitWork&) { return "empty node"; }
    const char* operator()(const CopyWork&) { return "copy"; }
    const char* operator()(const FetchWork&) { return "copy"; }
    const char* operator()(const MemsetWork&) { return "fill"; }
    const char* operator()(const HostFunctionWork&) { return "host function"; }
    const char* operator()(const KernelWork&) { return "kernel"; }
    const char* operator()(const RecordWork&) { return "record"; }
    const char* operator()(const ArriveWork&) { return "allocation"; }
    const char* operator()(const DepartWork&) { return "free"; }
    const char* operator()(const PrefetchWork&) { return "prefetch"; }
    const char* operator()(const WaitValueWork&) { return "wait"; }
    const char* operator()(const WriteValueWork&) { return "write"; }
  };
  return std::visit(Kinds{}, work);
}

/// The call that findings name for the work of `node`, which `launch` submits.
CallSite site_of(const GraphExec& exec, const GraphExec::Node& node, const CallSite& launch) {
  CallSite site = node.made;
  site.node = kind_of(node.work);
  site.graph = exec.handle;
  site.launch = launch.number;
  return site;
}

/// The nodes without successors.
std::vector<Submitted> submit_nodes(State& state, const GraphExec& exec, const Stream& launcher,
                                    const Submitted& fork) BERTH_REQUIRES(mutex) {
  const std::vector<Stream*> chains = make_chains(state, exec, launcher);
  std::vector<Submitted> all;
  std::vector<Submitted> last;
  const CallSite launch = state.call;
  for (const GraphExec::Node& node : exec.nodes) {
    state.call = site_of(exec, node, launch);
    std::vector<Submitted> after;
    if (node.dependencies.empty()) after.push_back(fork);
    for (const std::size_t earlier : node.dependencies) after.push_back(all[earlier]);
    if (node.awaits != 0) {
      const Event& event = *state.events.find(node.awaits);
      if (event.is_foreign()) {
        after.push_back({{}, {}, state.shared_order});
        after.push_back(submit_behind(state, *chains[node.chain], wait_for_foreign(event), after));
      } else {
        after.push_back({event.record, {}, event.clock});
      }
    }
    all.push_back(submit_node(state, node, *chains[node.chain], after, launcher.context));
    if (node.is_last) last.push_back(all.back());
  }
  state.call = launch;
  for (Stream* chain : chains) state.scheduler.destroy(*chain);  // once its work is done
  return last;
}

}  // namespace

CUresult launch(State& state, GraphExec& exec, Stream& stream) {
  if (!is_whole(state, exec)) return CUDA_ERROR_INVALID_VALUE;
  const CUresult fault = fault_of(state, exec);
  if (fault != CUDA_SUCCESS) return fault;
  if (!may_launch(exec)) return CUDA_ERROR_INVALID_VALUE;
  if (!provide_pages(state, exec)) return CUDA_ERROR_OUT_OF_MEMORY;
  Scheduler& scheduler = state.scheduler;
  scheduler.hold();
  free_left_over(state, exec, stream);
  const Submitted fork = submit_behind(state, stream, WaitWork{}, {exec.last_launch});
  exec.last_launch =
      submit_behind(state, stream, WaitWork{}, submit_nodes(state, exec, stream, fork));
  scheduler.release();
  return CUDA_SUCCESS;
}

}  // namespace berth::sim
