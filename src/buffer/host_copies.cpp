// SPDX-License-Identifier: Apache-2.0
#include "buffer/host_copies.hpp"

#include "berth/error.hpp"

#include "base/format.hpp"

namespace berth {
namespace {

constexpr std::size_t kPartBytesMin = std::size_t{64} << 10;
constexpr std::size_t kPartGranuleBytes = 4096;

}  // namespace

std::size_t part_bytes_of(const TransferOptions& options, std::size_t bytes) {
  const std::size_t part = options.part_bytes;
  if (part == 0) return 0;
  if (part < kPartBytesMin || part % kPartGranuleBytes != 0) {
    throw InvalidArgument(
        format_text("part_bytes is {}; accepted: 0, and multiples of {} from {} on", part,
                    kPartGranuleBytes, kPartBytesMin));
  }
  return part < bytes ? part : 0;
}

std::unique_ptr<DeviceBackend::Buffer> require_given(std::unique_ptr<DeviceBackend::Buffer> buffer,
                                                     const BufferState& state) {
  if (buffer != nullptr) return buffer;
  throw BackendError(format_text("the backend of {} ({}) gave no buffer",
                                 state.device().to_string(), state.owner().name),
                     0);
}

std::unique_ptr<DeviceBackend::Buffer> HostFills::add(const BufferState& state,
                                                      const void* source) {
  const std::span content(static_cast<const std::byte*>(source), state.bytes());
  const int index = state.device().ordinal();
  std::unique_ptr<DeviceBackend::Buffer> buffer;
  DeviceBackend::Begun begun;
  if (wants_parts()) begun = state.backend().begin_buffer(index, state.bytes());
  if (begun.filling != nullptr) {
    buffer = require_given(std::move(begun.buffer), state);
    task_of(state).add(std::move(begun.filling), content);
  } else {
    buffer =
        require_given(state.backend().create_buffer(
                          index, content,
                          state.set()->mappings().use(state.backend(), content,
                                                      transfer().add_operation(state.bytes()))),
                      state);
  }
  state.set()->count_written(state.device(), state.bytes());
  return buffer;
}

void HostReads::add(const BufferState& source, std::size_t offset, std::span<std::byte> target) {
  if (wants_parts() && source.backend().reads_parts()) {
    task_of(source).add(source.share(), offset, target);
  } else {
    source.backend().read(source.buffer(), offset, target,
                          source.set()->mappings().use(source.backend(), target,
                                                       transfer().add_operation(target.size())));
  }
  source.set()->count_read(source.device(), target.size());
}

}  // namespace berth
