// SPDX-License-Identifier: Apache-2.0
// How the fuzzer calls the functions of captures and graphs; see cuda_rows.hpp.
#pragma once

#include "fuzz/cuda_rows.hpp"

namespace berth::fuzz {
// clang-format off

BERTH_FUZZ(cuStreamBeginCapture, handle(Kind::stream), enumerator(2, 0, 1, 3))
BERTH_FUZZ(cuStreamBeginCaptureToGraph, handle(Kind::stream), handle(Kind::graph),
           handles_in(Kind::node), number(0), handles_count, enumerator(2, 0, 1, 3))
BERTH_FUZZ(cuStreamUpdateCaptureDependencies, handle(Kind::stream), handles_in(Kind::node),
           number(0), handles_count, number(0, 1, 2))
BERTH_FUZZ(cuStreamEndCapture, handle(Kind::stream), made(Kind::graph, true))
BERTH_FUZZ(cuStreamIsCapturing, handle(Kind::stream), out)
BERTH_FUZZ(cuStreamGetCaptureInfo, handle(Kind::stream), out, out, made(Kind::graph, true),
           borrowed_nodes, out, borrowed_count)
BERTH_FUZZ(cuThreadExchangeStreamCaptureMode, capture_mode_in_out)
BERTH_FUZZ(cuGraphCreate, made(Kind::graph), zero_flags)
BERTH_FUZZ(cuGraphDestroy, ending(Kind::graph))
BERTH_FUZZ(cuGraphAddEmptyNode, made(Kind::node), handle(Kind::graph), handles_in(Kind::node),
           handles_count)
BERTH_FUZZ(cuGraphClone, made(Kind::graph), handle(Kind::graph))
BERTH_FUZZ(cuGraphNodeFindInClone, out, handle(Kind::node), handle(Kind::graph))
BERTH_FUZZ(cuGraphAddChildGraphNode, made(Kind::node), handle(Kind::graph), handles_in(Kind::node),
           handles_count, handle(Kind::graph))
BERTH_FUZZ(cuGraphChildGraphNodeGetGraph, handle(Kind::node), out)
BERTH_FUZZ(cuGraphGetNodes, handle(Kind::graph), handles_out(Kind::node), length<std::size_t>)
BERTH_FUZZ(cuGraphGetEdges, handle(Kind::graph), handles_out(Kind::node), handles_out(Kind::node),
           array_out, length<std::size_t>)
BERTH_FUZZ(cuGraphGetRootNodes, handle(Kind::graph), handles_out(Kind::node), length<std::size_t>)
BERTH_FUZZ(cuGraphNodeGetDependencies, handle(Kind::node), handles_out(Kind::node), array_out,
           length<std::size_t>)
BERTH_FUZZ(cuGraphNodeGetDependentNodes, handle(Kind::node), handles_out(Kind::node), array_out,
           length<std::size_t>)
BERTH_FUZZ(cuGraphAddHostNode, made(Kind::node), handle(Kind::graph), handles_in(Kind::node),
           handles_count, host_node)
BERTH_FUZZ(cuGraphAddEventRecordNode, made(Kind::node), handle(Kind::graph),
           handles_in(Kind::node), handles_count, handle(Kind::event))
BERTH_FUZZ(cuGraphAddEventWaitNode, made(Kind::node), handle(Kind::graph), handles_in(Kind::node),
           handles_count, handle(Kind::event))
BERTH_FUZZ(cuGraphHostNodeGetParams, handle(Kind::node), out)
BERTH_FUZZ(cuGraphHostNodeSetParams, handle(Kind::node), host_node)
BERTH_FUZZ(cuGraphExecHostNodeSetParams, handle(Kind::exec), handle(Kind::node), host_node)
BERTH_FUZZ(cuGraphEventRecordNodeGetEvent, handle(Kind::node), out)
BERTH_FUZZ(cuGraphEventRecordNodeSetEvent, handle(Kind::node), handle(Kind::event))
BERTH_FUZZ(cuGraphExecEventRecordNodeSetEvent, handle(Kind::exec), handle(Kind::node),
           handle(Kind::event))
BERTH_FUZZ(cuGraphEventWaitNodeGetEvent, handle(Kind::node), out)
BERTH_FUZZ(cuGraphEventWaitNodeSetEvent, handle(Kind::node), handle(Kind::event))
BERTH_FUZZ(cuGraphExecEventWaitNodeSetEvent, handle(Kind::exec), handle(Kind::node),
           handle(Kind::event))
BERTH_FUZZ(cuGraphAddMemcpyNode, made(Kind::node), handle(Kind::graph), handles_in(Kind::node),
           handles_count, volume, handle(Kind::context))
BERTH_FUZZ(cuGraphMemcpyNodeGetParams, handle(Kind::node), out)
BERTH_FUZZ(cuGraphMemcpyNodeSetParams, handle(Kind::node), volume)
BERTH_FUZZ(cuGraphExecMemcpyNodeSetParams, handle(Kind::exec), handle(Kind::node), volume,
           handle(Kind::context))
BERTH_FUZZ(cuGraphAddKernelNode, made(Kind::node), handle(Kind::graph), handles_in(Kind::node),
           handles_count, kernel_node)
BERTH_FUZZ(cuGraphKernelNodeGetParams, handle(Kind::node), uncertain_out)
BERTH_FUZZ(cuGraphKernelNodeSetParams, handle(Kind::node), kernel_node)
BERTH_FUZZ(cuGraphExecKernelNodeSetParams, handle(Kind::exec), handle(Kind::node), kernel_node)
BERTH_FUZZ(cuGraphKernelNodeGetAttribute, handle(Kind::node), stream_attribute_id, out)
BERTH_FUZZ(cuGraphKernelNodeSetAttribute, handle(Kind::node), stream_attribute_id, stream_attribute)
BERTH_FUZZ(cuGraphKernelNodeCopyAttributes, handle(Kind::node), handle(Kind::node))
BERTH_FUZZ(cuGraphAddMemsetNode, made(Kind::node), handle(Kind::graph), handles_in(Kind::node),
           handles_count, fill_node, handle(Kind::context))
BERTH_FUZZ(cuGraphMemsetNodeGetParams, handle(Kind::node), out)
BERTH_FUZZ(cuGraphMemsetNodeSetParams, handle(Kind::node), fill_node)
BERTH_FUZZ(cuGraphExecMemsetNodeSetParams, handle(Kind::exec), handle(Kind::node), fill_node,
           handle(Kind::context))
BERTH_FUZZ(cuGraphAddNode, made(Kind::node), handle(Kind::graph), handles_in(Kind::node),
           below(1), handles_count, generic_node)
BERTH_FUZZ(cuGraphNodeSetParams, handle(Kind::node), generic_node)
BERTH_FUZZ(cuGraphExecNodeSetParams, handle(Kind::exec), handle(Kind::node), generic_node)
BERTH_FUZZ(cuGraphAddDependencies, handle(Kind::graph), handles_in(Kind::node),
           handles_in(Kind::node), below(1), handles_count)
BERTH_FUZZ(cuGraphRemoveDependencies, handle(Kind::graph), handles_in(Kind::node),
           handles_in(Kind::node), below(1), handles_count)
BERTH_FUZZ(cuGraphDestroyNode, ending(Kind::node))
BERTH_FUZZ(cuGraphNodeSetEnabled, handle(Kind::exec), handle(Kind::node), number(0, 1, 2))
BERTH_FUZZ(cuGraphNodeGetEnabled, handle(Kind::exec), handle(Kind::node), out)
BERTH_FUZZ(cuGraphExecChildGraphNodeSetParams, handle(Kind::exec), handle(Kind::node),
           handle(Kind::graph))
BERTH_FUZZ(cuGraphExecUpdate, handle(Kind::exec), handle(Kind::graph), uncertain_out)
BERTH_FUZZ(cuGraphDebugDotPrint, handle(Kind::graph), number(0), zero_flags)
BERTH_FUZZ(cuGraphNodeGetType, handle(Kind::node), out)
BERTH_FUZZ(cuGraphInstantiateWithFlags, made(Kind::exec), handle(Kind::graph), number(0, 1, 8, 4))
BERTH_FUZZ(cuGraphInstantiateWithParams, made(Kind::exec), handle(Kind::graph), instantiation)
BERTH_FUZZ(cuGraphUpload, handle(Kind::exec), handle(Kind::stream))
BERTH_FUZZ(cuGraphExecGetFlags, handle(Kind::exec), out)
BERTH_FUZZ(cuGraphAddMemAllocNode, made(Kind::node), handle(Kind::graph), handles_in(Kind::node),
           handles_count, graph_allocation)
BERTH_FUZZ(cuGraphMemAllocNodeGetParams, handle(Kind::node), out)
BERTH_FUZZ(cuGraphAddMemFreeNode, made(Kind::node), handle(Kind::graph), handles_in(Kind::node),
           handles_count, address(Kind::memory))
BERTH_FUZZ(cuGraphMemFreeNodeGetParams, handle(Kind::node), out)
BERTH_FUZZ(cuGraphAddBatchMemOpNode, made(Kind::node), handle(Kind::graph), handles_in(Kind::node),
           handles_count, node_batch)
BERTH_FUZZ(cuGraphBatchMemOpNodeGetParams, handle(Kind::node), out)
BERTH_FUZZ(cuGraphBatchMemOpNodeSetParams, handle(Kind::node), node_batch)
BERTH_FUZZ(cuGraphExecBatchMemOpNodeSetParams, handle(Kind::exec), handle(Kind::node), node_batch)
BERTH_FUZZ(cuDeviceGraphMemTrim, device)
BERTH_FUZZ(cuDeviceGetGraphMemAttribute, device, enumerator(0, 1, 2, 3, 4), out)
BERTH_FUZZ(cuDeviceSetGraphMemAttribute, device, enumerator(1, 3, 0, 2, 4), value_in)
BERTH_FUZZ(cuGraphLaunch, handle(Kind::exec), handle(Kind::stream))
BERTH_FUZZ(cuGraphExecDestroy, ending(Kind::exec))
BERTH_FUZZ(cuUserObjectCreate, made(Kind::user_object), number(0), host_function, reference_count,
           number(1, 0))
BERTH_FUZZ(cuUserObjectRetain, handle(Kind::user_object), reference_count)
BERTH_FUZZ(cuUserObjectRelease, handle(Kind::user_object), reference_count)
BERTH_FUZZ(cuGraphRetainUserObject, handle(Kind::graph), handle(Kind::user_object), reference_count,
           number(0, 1, 2))
BERTH_FUZZ(cuGraphReleaseUserObject, handle(Kind::graph), handle(Kind::user_object),
           reference_count)

// clang-format on
}  // namespace berth::fuzz
