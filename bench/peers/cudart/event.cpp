// SPDX-License-Identifier: Apache-2.0
#include "peers/cudart/forward.hpp"

namespace berth::bench::cudart {

static_assert(int(cudaEventDisableTiming) == int(CU_EVENT_DISABLE_TIMING));

extern "C" {

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  *event = nullptr;
  return forward([=](const Driver& to) { return to.try_event_create(event, flags); });
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  return forward([=](const Driver& to) { return to.try_event_destroy(event); });
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return forward([=](const Driver& to) { return to.try_event_record(event, stream); });
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  return forward([=](const Driver& to) { return to.try_event_query(event); });
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  return forward([=](const Driver& to) { return to.try_event_synchronize(event); });
}

}  // extern "C"

}  // namespace berth::bench::cudart
