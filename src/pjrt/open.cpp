// SPDX-License-Identifier: Apache-2.0
// The entry point of libberth_pjrt.
#include <memory>

#include "berth/error.hpp"

#include "device/pjrt_library.hpp"
#include "pjrt/client.hpp"
#include "pjrt/topology.hpp"

namespace berth::pjrt {
namespace {

std::unique_ptr<DeviceBackend> open(const PjrtRequest& request) {
  if (request.struct_size != sizeof(PjrtRequest))
    throw NotSupported("libberth and libberth_pjrt are not of the same version");
  const Api& api = Api::open(request.plugin->path);
  if (request.topology != nullptr)
    return std::make_unique<PjrtTopology>(api, request.topology, request.plugin->options);
  return std::make_unique<PjrtClient>(api, request.plugin->options);
}

}  // namespace
}  // namespace berth::pjrt

berth::DeviceBackend* berth_pjrt_open(berth::PjrtRequest* request) noexcept {
  try {
    return berth::pjrt::open(*request).release();
  } catch (...) {
    request->failure = std::current_exception();
    return nullptr;
  }
}
