// SPDX-License-Identifier: Apache-2.0
// Tensors on opaque devices: their memory is buffers of a plug-in.
#pragma once

#include "../core/tensor.hpp"

namespace mini {

inline Tensor by_buffers(const Tensor& from, Device target) {
  berth::DeviceBuffers& buffers = library().runtime.buffers();
  const Shape& shape = from.shape();
  if (target.is_opaque() && from.device().is_opaque())
    return {shape, buffers.create(target, from.buffer())};
  if (target.is_opaque() && from.device().is_cpu()) {
    const auto owner = std::make_shared<Tensor>(from);
    return {shape, buffers.create(target, from.data(), from.bytes(), {.keep_alive = owner})};
  }
  if (target.is_opaque()) {
    const berth::StreamRef stream = library().stream(from.device());
    return {shape, buffers.create(target, from.data(), from.bytes(), stream)};
  }
  Tensor moved(shape, target);
  if (target.is_cpu()) {
    from.buffer().read(moved.data(), 0, from.bytes()).wait();
  } else {
    const berth::StreamRef stream = library().stream(target);
    buffers.copy(moved.data(), from.buffer(), 0, from.bytes(), stream).wait();
  }
  return moved;
}

}  // namespace mini
