// SPDX-License-Identifier: Apache-2.0
// Numbers on a device.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <numeric>
#include <vector>

#include "library.hpp"

namespace mini {

using Shape = std::vector<long>;

/// How a tensor moves. Without `non_blocking`, the target has the bytes when the call returns.
struct To {
  bool non_blocking = false;
};

/// Returns the shape, if a tensor can have it.
inline Shape checked(Shape shape) {
  long left = PTRDIFF_MAX / long(sizeof(float));  // elements that there may be
  for (const long size : shape) {
    if (size < 0 || size > left) throw berth::InvalidArgument("no tensor has this shape");
    left /= std::max(size, 1L);
  }
  return shape;
}

class Tensor;
/// The same numbers on another device, if one of the two is opaque: ../io/buffers.hpp.
Tensor by_buffers(const Tensor& from, Device target);

/// An array of floats in row-major order, and the device that it is on. Copies share the memory.
class Tensor {
 public:
  Tensor() = default;
  /// Undefined content. `pinned`: page-locked memory of the host, for tensors on the CPU.
  explicit Tensor(Shape shape, Device device = "cpu", bool pinned = false)
      : shape_(checked(std::move(shape))), device_(devices().resolve(device)) {
    memory_ = std::make_shared<Memory>(Memory{allocate(bytes(), pinned), {}});
  }
  /// The content of a buffer of an opaque device.
  Tensor(Shape shape, berth::DeviceBuffer buffer)
      : shape_(std::move(shape)), device_(buffer.device()) {
    memory_ = std::make_shared<Memory>(Memory{{}, std::move(buffer)});
  }

  [[nodiscard]] const Shape& shape() const { return shape_; }
  [[nodiscard]] Device device() const { return device_; }
  [[nodiscard]] long elements() const {
    return std::accumulate(shape_.begin(), shape_.end(), 1L, std::multiplies<>());
  }
  [[nodiscard]] std::size_t bytes() const { return std::size_t(elements()) * sizeof(float); }
  /// Null on an opaque device.
  [[nodiscard]] float* data() const { return static_cast<float*>(memory_->allocation.data()); }
  [[nodiscard]] const berth::DeviceBuffer& buffer() const { return memory_->buffer; }
  [[nodiscard]] bool is_pinned() const { return library().runtime.pinned_memory().owns(data()); }

  /// The same numbers on `target`; this tensor if it is there already.
  [[nodiscard]] Tensor to(Device target, To options = {}) const;
  [[nodiscard]] Tensor cuda(int index = 0) const { return to(berth::Device::cuda(index)); }
  [[nodiscard]] Tensor cpu() const { return to("cpu"); }
  /// A copy in pinned memory of the host.
  [[nodiscard]] Tensor pin_memory() const {
    Tensor pinned(shape_, "cpu", true);
    pinned.assign(values());
    return pinned;
  }

  /// The numbers; waits for a device.
  [[nodiscard]] std::vector<float> values() const {
    const Tensor host = cpu();
    library().kernels->host_uses(host.data(), host.bytes(), false);
    return {host.data(), host.data() + host.elements()};
  }
  /// The only number of a tensor.
  [[nodiscard]] float item() const {
    if (elements() != 1) throw berth::InvalidArgument("item: the tensor is not a single number");
    return values()[0];
  }
  /// Overwrites the numbers of a tensor on the CPU.
  void assign(const std::vector<float>& values) {
    berth::require_same_device("assign", {{"values", berth::Device::cpu()}, {"tensor", device_}});
    if (long(values.size()) != elements()) throw berth::InvalidArgument("assign: another size");
    library().kernels->host_uses(data(), bytes(), true);
    std::copy(values.begin(), values.end(), data());
  }

  /// Work that `stream` holds when this memory is freed uses it, too.
  void record_stream(berth::StreamRef stream) const { memory_->allocation.record_stream(stream); }

 private:
  [[nodiscard]] berth::Allocation allocate(std::size_t bytes, bool pinned) const {
    berth::Runtime& runtime = library().runtime;
    if (device_.is_cpu())
      return pinned ? runtime.pinned_memory().allocate(bytes)
                    : runtime.host_memory().allocate(bytes);
    return runtime.memory(device_).allocate(bytes, library().stream(device_));
  }

  struct Memory {
    berth::Allocation allocation;
    berth::DeviceBuffer buffer;  ///< on an opaque device
  };
  Shape shape_ = {0};
  Device device_ = "cpu";
  std::shared_ptr<Memory> memory_ = std::make_shared<Memory>();
};

inline Tensor Tensor::to(Device target, To options) const {
  target = devices().resolve(target);
  if (target == device_) return *this;
  if (target.is_opaque() || device_.is_opaque()) return by_buffers(*this, target);
  Tensor moved(shape_, target, options.non_blocking);
  const berth::CopyStreams streams = library().streams(target, device_);
  berth::Copier& copier = library().runtime.copier();
  // Between devices, the streams keep the order. A pageable source has been read on return.
  const bool between_devices = !target.is_cpu() && !device_.is_cpu();
  if (options.non_blocking || between_devices) {
    copier.copy_async(moved.data(), data(), bytes(), streams);
  } else {
    copier.copy(moved.data(), data(), bytes(), streams);
  }
  return moved;
}

/// A tensor of the given numbers.
inline Tensor tensor(const std::vector<float>& values, Shape shape, Device device = "cpu") {
  Tensor made(std::move(shape));
  made.assign(values);
  return made.to(device);
}

}  // namespace mini

#include "../io/buffers.hpp"
