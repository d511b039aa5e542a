// SPDX-License-Identifier: Apache-2.0
// Attributes of streams. All but the priority have no effect.
// Source: CUDA Driver API, cuStreamSetAttribute, CUlaunchAttributeID.
#include <algorithm>

#include "sim/call.hpp"
#include "sim/calls/launch_attributes.hpp"

namespace berth::sim {
namespace {

CUresult get(const Stream& stream, CUstreamAttrID attribute, CUstreamAttrValue& out) {
  CUstreamAttrValue value{};
  switch (attribute) {
    case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
      value.accessPolicyWindow = stream.attributes.window;
      break;
    case CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY:
      value.syncPolicy = stream.attributes.policy;
      break;
    case CU_LAUNCH_ATTRIBUTE_PRIORITY:
      value.priority = stream.priority;
      break;
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
      value.memSyncDomain = stream.attributes.domain;
      break;
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
      value.memSyncDomainMap = stream.attributes.domains;
      break;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
  out = value;
  return CUDA_SUCCESS;
}

CUresult set(State& state, Stream& stream, CUstreamAttrID attribute,
             const CUstreamAttrValue& value) {
  switch (attribute) {
    case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
      if (!is_window(state, stream.device, value.accessPolicyWindow))
        return CUDA_ERROR_INVALID_VALUE;
      stream.attributes.window = value.accessPolicyWindow;
      return CUDA_SUCCESS;
    case CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY:
      if (value.syncPolicy < CU_SYNC_POLICY_AUTO || value.syncPolicy > CU_SYNC_POLICY_BLOCKING_SYNC)
        return CUDA_ERROR_INVALID_VALUE;
      stream.attributes.policy = value.syncPolicy;
      return CUDA_SUCCESS;
    case CU_LAUNCH_ATTRIBUTE_PRIORITY:
      state.scheduler.set_priority(stream,
                                   std::clamp(value.priority, kGreatestPriority, kLeastPriority));
      return CUDA_SUCCESS;
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
      if (!is_domain(value.memSyncDomain)) return CUDA_ERROR_INVALID_VALUE;
      stream.attributes.domain = value.memSyncDomain;
      return CUDA_SUCCESS;
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
      stream.attributes.domains = value.memSyncDomainMap;
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

}  // namespace

CUresult berth_sim_cuStreamGetAttribute(CUstream stream, CUstreamAttrID attribute,
                                        CUstreamAttrValue* value) {
  Call call(Function::k_cuStreamGetAttribute, Needs::context);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  const Stream* const found = call.find_stream(stream);
  if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  return value != nullptr ? get(*found, attribute, *value) : CUDA_ERROR_INVALID_VALUE;
}

CUresult berth_sim_cuStreamSetAttribute(CUstream stream, CUstreamAttrID attribute,
                                        const CUstreamAttrValue* value) {
  Call call(Function::k_cuStreamSetAttribute, Needs::context);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  Stream* const found = call.find_stream(stream);
  if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return set(call.state(), *found, attribute, *value);
}

// "Both streams must have the same context."
CUresult berth_sim_cuStreamCopyAttributes(CUstream destination, CUstream source) {
  Call call(Function::k_cuStreamCopyAttributes, Needs::context);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  const Stream* const from = call.find_stream(source);
  Stream* const to = call.find_stream(destination);
  if (from == nullptr || to == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (from->context != to->context) return CUDA_ERROR_INVALID_VALUE;
  to->attributes = from->attributes;
  call.state().scheduler.set_priority(*to, from->priority);
  return CUDA_SUCCESS;
}

}  // namespace berth::sim
