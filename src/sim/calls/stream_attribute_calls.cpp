// SPDX-License-Identifier: Apache-2.0
// Attributes of streams. All but the priority have no effect.
// Source: CUDA Driver API, cuStreamSetAttribute, CUlaunchAttributeID.
#include <algorithm>
#include <cstddef>

#include "sim/call.hpp"

namespace berth::sim {
namespace {

bool is_property(CUaccessProperty property) {
  return property >= CU_ACCESS_PROPERTY_NORMAL && property <= CU_ACCESS_PROPERTY_PERSISTING;
}

/// Whether a stream of `device` can have it.
bool is_window(const State& state, const Stream& stream, const CUaccessPolicyWindow& window) {
  const Device& device = state.devices[static_cast<std::size_t>(stream.device)];
  const int most = device_attribute(state.config, device.facts,
                                    CU_DEVICE_ATTRIBUTE_MAX_ACCESS_POLICY_WINDOW_SIZE)
                       .value_or(0);
  const bool fits = window.num_bytes <= static_cast<std::size_t>(most);
  const bool is_ratio = window.hitRatio >= 0 && window.hitRatio <= 1;
  return fits && is_ratio && is_property(window.hitProp) && is_property(window.missProp) &&
         window.missProp != CU_ACCESS_PROPERTY_PERSISTING;
}

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
      if (!is_window(state, stream, value.accessPolicyWindow)) return CUDA_ERROR_INVALID_VALUE;
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
      if (value.memSyncDomain != CU_LAUNCH_MEM_SYNC_DOMAIN_DEFAULT &&
          value.memSyncDomain != CU_LAUNCH_MEM_SYNC_DOMAIN_REMOTE)
        return CUDA_ERROR_INVALID_VALUE;
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
