// SPDX-License-Identifier: Apache-2.0
#include "copy/copy_ends.hpp"

#include "copy/host_memcpy.hpp"
#include "device/device_context.hpp"

namespace berth {

void LinearHost::read(std::byte* staging, std::size_t offset, std::size_t bytes) {
  memcpy_to_staging(staging, data_ + offset, bytes);
}

void LinearHost::write(const std::byte* staging, std::size_t offset, std::size_t bytes) {
  memcpy_from_staging(data_ + offset, staging, bytes);
}

void LinearDevice::submit_write(const std::byte* staging, std::size_t offset, std::size_t bytes,
                                StreamRef stream) {
  stream.context().driver().memcpy_async(reinterpret_cast<CUdeviceptr>(data_ + offset),
                                         reinterpret_cast<CUdeviceptr>(staging), bytes,
                                         stream.native());
}

void LinearDevice::submit_read(std::byte* staging, std::size_t offset, std::size_t bytes,
                               StreamRef stream) {
  stream.context().driver().memcpy_async(reinterpret_cast<CUdeviceptr>(staging),
                                         reinterpret_cast<CUdeviceptr>(data_ + offset), bytes,
                                         stream.native());
}

}  // namespace berth
