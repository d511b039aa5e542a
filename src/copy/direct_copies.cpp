// SPDX-License-Identifier: Apache-2.0
#include "copy/direct_copies.hpp"

#include "device/device_context.hpp"

namespace berth {

// Before the copy is submitted: a block that another thread frees right after that must wait for it.
void DirectCopies::record_blocks(const CopySide& to, const CopySide& from, StreamRef stream) {
  for (void* block : {to.kind.pinned_block, from.kind.pinned_block}) {
    if (block != nullptr) pinned_.record_stream(block, stream);
  }
}

void DirectCopies::submit_piece(const CopySide& to, const CopySide& from, std::size_t offset,
                                std::size_t bytes, StreamRef stream) {
  const Driver& driver = stream.context().driver();
  const auto target = reinterpret_cast<CUdeviceptr>(to.data + offset);
  const auto source = reinterpret_cast<CUdeviceptr>(from.data + offset);
  DeviceContext* const target_device = to.kind.device;
  DeviceContext* const source_device = from.kind.device;
  const bool between_devices =
      target_device != nullptr && source_device != nullptr && target_device != source_device;
  if (between_devices) {
    driver.memcpy_peer_async(target, target_device->primary(), source, source_device->primary(),
                             bytes, stream.native());
  } else {
    driver.memcpy_async(target, source, bytes, stream.native());
  }
}

}  // namespace berth
