// SPDX-License-Identifier: Apache-2.0
// Memory to and from other tensor libraries by DLPack 1.x. The structs have the published layout,
// so that a pointer to one is a pointer to the struct of the same meaning in <dlpack/dlpack.h>.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "berth/allocator.hpp"
#include "berth/device.hpp"
#include "berth/error.hpp"
#include "berth/runtime.hpp"

namespace berth::dlpack {

struct Version {  ///< DLPackVersion
  std::uint32_t major;
  std::uint32_t minor;
};
inline constexpr Version kVersion = {1, 0};

/// Values of DLDevice::device_type.
enum : std::int32_t { kCpu = 1, kCuda = 2, kCudaHost = 3 };

struct DeviceNumber {  ///< DLDevice
  std::int32_t device_type;
  std::int32_t device_id;
};

/// Values of DLDataType::code.
enum : std::uint8_t { kInt = 0, kUInt = 1, kFloat = 2, kBfloat = 4, kComplex = 5, kBool = 6 };

struct DataType {  ///< DLDataType
  std::uint8_t code;
  std::uint8_t bits;
  std::uint16_t lanes = 1;
};

struct Tensor {  ///< DLTensor
  void* data;
  DeviceNumber device;
  std::int32_t ndim;
  DataType dtype;
  std::int64_t* shape;
  std::int64_t* strides;  ///< in elements
  std::uint64_t byte_offset;
};

/// Bits of ManagedTensor::flags.
inline constexpr std::uint64_t kReadOnly = 1;

struct ManagedTensor {  ///< DLManagedTensorVersioned
  Version version;
  void* manager;
  void (*deleter)(ManagedTensor* self);  ///< null: nothing is to be freed
  std::uint64_t flags;
  Tensor tensor;
};

/// Whether host memory is pinned, which DLPack names a device of its own.
enum class HostKind { pageable, pinned };

/// Errors  NotSupported: a device that DLPack has no number for here; `cuda` without its ordinal.
[[nodiscard]] inline DeviceNumber to_number(Device device, HostKind kind = HostKind::pageable) {
  if (device.is_cpu()) return {kind == HostKind::pinned ? kCudaHost : kCpu, 0};
  if (device.type() == DeviceType::cuda() && device.ordinal() >= 0)
    return {kCuda, device.ordinal()};
  throw NotSupported("DLPack has no device \"" + device.to_string() + "\"; accepted: cpu, cuda:N");
}
/// Pinned memory is `cpu`.
/// Errors  NotSupported: another type of device.
[[nodiscard]] inline Device to_device(DeviceNumber number) {
  if (number.device_type == kCpu || number.device_type == kCudaHost) return Device::cpu();
  if (number.device_type == kCuda) return Device::cuda(number.device_id);
  throw NotSupported("the DLPack device type " + std::to_string(number.device_type) +
                     "; accepted: 1 (CPU), 2 (CUDA), 3 (pinned)");
}

/// Gives a block to another library, C-contiguous. Its deleter, on any thread, frees the block,
/// which the Runtime must outlive. `consumer`, if any, waits for the work on the block, and the
/// block's reuse for the work that it holds when the block is freed. An Allocation of 0 bytes has
/// no device: it is exported as memory of `cpu`.
/// Errors  InvalidArgument: a data type of 0 bits or lanes; the shape has a negative extent, or
///         takes more than the block has. Errors of Runtime::record() and
///         Allocation::record_stream(). `memory` is then unchanged.
[[nodiscard]] inline ManagedTensor* export_tensor(Allocation&& memory,
                                                  std::span<const std::int64_t> shape,
                                                  DataType dtype,
                                                  HostKind kind = HostKind::pageable,
                                                  Runtime* runtime = nullptr,
                                                  std::optional<StreamRef> consumer = {}) {
  struct Owner {
    ManagedTensor managed;
    Allocation memory;
    std::vector<std::int64_t> shape, strides;
  };
  auto owner = std::make_unique<Owner>();
  owner->shape.assign(shape.begin(), shape.end());
  owner->strides.resize(shape.size());
  if (dtype.bits == 0 || dtype.lanes == 0)
    throw InvalidArgument("the data type has " + std::to_string(dtype.bits) + " bits and " +
                          std::to_string(dtype.lanes) + " lanes; accepted: 1 or more of each");
  const bool is_empty = std::ranges::find(shape, 0) != shape.end();
  std::size_t elements = 1;
  for (std::size_t axis = shape.size(); axis-- > 0;) {
    owner->strides[axis] = static_cast<std::int64_t>(elements);
    const bool is_too_large =
        __builtin_mul_overflow(elements, static_cast<std::size_t>(shape[axis]), &elements);
    if (is_too_large && is_empty) elements = 0;
    if (shape[axis] < 0 || (is_too_large && !is_empty))
      throw InvalidArgument("the extent " + std::to_string(shape[axis]) + " of axis " +
                            std::to_string(axis) + " is not accepted");
  }
  std::size_t bits = 0;
  if (__builtin_mul_overflow(elements, std::size_t{dtype.bits} * dtype.lanes, &bits) ||
      bits / 8 + (bits % 8 != 0) > memory.bytes())
    throw InvalidArgument("the shape takes more than the " + std::to_string(memory.bytes()) +
                          " bytes of the block");
  const DeviceNumber number = to_number(memory.device(), kind);
  const std::optional<StreamRef> own = memory.stream();
  if (own && consumer && runtime != nullptr && *own != *consumer) {
    consumer->wait(runtime->record(*own).ref());
    memory.record_stream(*consumer);
  }
  owner->managed = {
      .version = kVersion,
      .manager = owner.get(),
      .deleter = [](ManagedTensor* self) { delete static_cast<Owner*>(self->manager); },
      .flags = 0,
      .tensor = {.data = memory.data(),
                 .device = number,
                 .ndim = static_cast<std::int32_t>(shape.size()),
                 .dtype = dtype,
                 .shape = owner->shape.data(),
                 .strides = owner->strides.data(),
                 .byte_offset = 0}};
  owner->memory = std::move(memory);
  return &owner.release()->managed;
}

/// Owns a tensor of another library, and returns it on destruction. Movable.
/// Threads  One thread at a time; may be destroyed on another thread.
class ImportedTensor {
 public:
  /// Takes ownership.
  /// Errors  InvalidArgument: null. NotSupported: another major version of DLPack, or a device of
  ///         to_device(). The tensor is then still the caller's.
  explicit ImportedTensor(ManagedTensor* managed) {
    if (managed == nullptr) throw InvalidArgument("the tensor is null");
    if (managed->version.major != kVersion.major)
      throw NotSupported("DLPack " + std::to_string(managed->version.major) + "." +
                         std::to_string(managed->version.minor) + "; accepted: 1.x");
    device_ = to_device(managed->tensor.device);
    managed_.reset(managed);
  }

  [[nodiscard]] const Tensor& tensor() const noexcept { return managed_->tensor; }
  /// The first element.
  [[nodiscard]] void* data() const noexcept {
    return static_cast<char*>(tensor().data) + tensor().byte_offset;
  }
  [[nodiscard]] Device device() const noexcept { return device_; }
  [[nodiscard]] std::span<const std::int64_t> shape() const noexcept {
    return {tensor().shape, static_cast<std::size_t>(tensor().ndim)};
  }
  [[nodiscard]] bool is_read_only() const noexcept { return (managed_->flags & kReadOnly) != 0; }
  /// Whether the elements lie one after the other, in C order.
  [[nodiscard]] bool is_contiguous() const noexcept {
    if (tensor().strides == nullptr) return true;
    if (std::ranges::find(shape(), 0) != shape().end()) return true;
    std::int64_t expected = 1;
    bool is_overflown = false;
    for (std::int32_t axis = tensor().ndim; axis-- > 0;) {
      const std::int64_t extent = tensor().shape[axis];
      if (extent == 1) continue;
      if (is_overflown || tensor().strides[axis] != expected) return false;
      is_overflown = __builtin_mul_overflow(expected, extent, &expected);
    }
    return true;
  }

 private:
  struct Delete {
    void operator()(ManagedTensor* managed) const noexcept {
      if (managed->deleter != nullptr) managed->deleter(managed);
    }
  };
  std::unique_ptr<ManagedTensor, Delete> managed_;
  Device device_ = Device::cpu();
};

}  // namespace berth::dlpack
