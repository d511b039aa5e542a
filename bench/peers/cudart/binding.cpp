// SPDX-License-Identifier: Apache-2.0
#include "peers/cudart/binding.hpp"

namespace berth::bench {

CudartBinding::CudartBinding(Session& session, LeadCudart& lead) : lead_(lead) {
  CudartTarget target{.kind = CudartTarget::Kind::driver,
                      .driver = &session.driver(),
                      .context = nullptr,
                      .device = 0,
                      .resolve = session.driver_functions()};
  target.driver->ctx_get_current(&target.context);
  target.driver->ctx_get_device(&target.device);
  lead_(target);
}

CudartBinding::CudartBinding(LeadCudart& lead) : lead_(lead) {
  CudartTarget target;
  target.kind = CudartTarget::Kind::nothing;
  lead_(target);
}

CudartBinding::~CudartBinding() {
  lead_({});
}

}  // namespace berth::bench
