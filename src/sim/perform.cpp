// SPDX-License-Identifier: Apache-2.0
#include "sim/perform.hpp"

#include <algorithm>
#include <cstring>

#include "sim/host_memory.hpp"
#include "sim/state.hpp"

namespace berth::sim {
namespace {

/// Walks the stretches of bytes behind a span that is known to be whole.
class Walk {
 public:
  enum class Use { read, write };

  /// `raw`: host memory that is not in the address space.
  Walk(State& state, Use use, std::uint64_t address, bool raw)
      : state_(state), use_(use), at_(address), raw_(raw) {}

  /// The next stretch, of at most `bytes`.
  Piece next(std::size_t bytes) {
    if (raw_) return take(reinterpret_cast<std::byte*>(at_), bytes, bytes);
    const Range& range = *state_.addresses.find(at_);
    const std::uint64_t offset = at_ - range.start;
    const std::uint64_t left = range.bytes - offset;
    if (range.is_host()) return take(reinterpret_cast<std::byte*>(at_), left, bytes);
    if (use_ == Use::write) range.block->written = true;
    const std::uint64_t in_block = range.block_offset + offset;
    const PhysicalBlock::Piece& piece = range.block->piece_at(in_block);
    const std::uint64_t in_piece = in_block - piece.block_offset;
    PhysicalMemory& memory = *state_.devices[static_cast<std::size_t>(range.device)].memory;
    return take(memory.data(piece.device_offset + in_piece), std::min(left, piece.bytes - in_piece),
                bytes);
  }

  /// Goes back by `bytes` of what next() gave.
  void put_back(std::size_t bytes) { at_ -= bytes; }

 private:
  Piece take(std::byte* data, std::uint64_t available, std::size_t wanted) {
    const std::size_t bytes = std::min<std::uint64_t>(available, wanted);
    at_ += bytes;
    return {data, bytes};
  }

  State& state_;
  Use use_;
  std::uint64_t at_;
  bool raw_;
};

bool reachable(State& state, const Context& context, std::uint64_t address, std::size_t bytes,
               Access access) {
  const Span span = state.addresses.span(address, bytes);
  if (span.kind != Span::Kind::device && span.kind != Span::Kind::pinned) return false;
  return may_access(span, context, access);
}

/// Whether pageable memory is still there: a graph uses it long after the call that named it.
bool is_there(State& state, std::uint64_t address, std::size_t bytes) {
  const Span::Kind kind = state.addresses.span(address, bytes).kind;
  if (kind != Span::Kind::pageable) return kind == Span::Kind::pinned;
  return is_host_memory(reinterpret_cast<void*>(address), bytes);
}

CUresult run(State&, const Context&, const Stream&, Operation&, WaitWork&) {
  return CUDA_SUCCESS;
}
CUresult run(State&, const Context&, const Stream&, Operation&, HostFunctionWork&) {
  return CUDA_SUCCESS;
}

CUresult run(State& state, const Context& context, const Stream& stream, Operation& operation,
             KernelWork& kernel) {
  for (const KernelUse& use : kernel.uses) {
    const Access access = use.writes ? Access::write : Access::read;
    if (!reachable(state, context, use.address, use.bytes, access))
      return CUDA_ERROR_ILLEGAL_ADDRESS;
    Walk at(state, use.writes ? Walk::Use::write : Walk::Use::read, use.address, false);
    for (std::size_t left = use.bytes; left != 0;) {
      const Piece piece = at.next(left);
      state.races.use(stream, operation, use.address, use.bytes, piece.data, piece.bytes,
                      use.writes);
      left -= piece.bytes;
    }
  }
  return CUDA_SUCCESS;
}

CUresult run(State& state, const Context& context, const Stream& stream, Operation& operation,
             CopyWork& copy) {
  const bool source_is_ours = !copy.source_pageable && copy.staged == nullptr;
  if (source_is_ours && !reachable(state, context, copy.source, copy.bytes, Access::copy_from))
    return CUDA_ERROR_ILLEGAL_ADDRESS;
  if (!copy.destination_pageable &&
      !reachable(state, context, copy.destination, copy.bytes, Access::copy_to))
    return CUDA_ERROR_ILLEGAL_ADDRESS;

  const bool reads_pageable = copy.source_pageable && copy.staged == nullptr;
  if ((reads_pageable && !is_there(state, copy.source, copy.bytes)) ||
      (copy.destination_pageable && !is_there(state, copy.destination, copy.bytes)))
    return CUDA_ERROR_ILLEGAL_ADDRESS;

  const std::uint64_t source =
      copy.staged ? reinterpret_cast<std::uint64_t>(copy.staged.get()) : copy.source;
  Walk from(state, Walk::Use::read, source, !source_is_ours);
  Walk to(state, Walk::Use::write, copy.destination, copy.destination_pageable);
  for (std::size_t left = copy.bytes; left != 0;) {
    const Piece target = to.next(left);
    const Piece origin = from.next(target.bytes);
    std::memmove(target.data, origin.data, origin.bytes);
    if (source_is_ours)
      state.races.use(stream, operation, copy.source, copy.bytes, origin.data, origin.bytes, false);
    if (!copy.destination_pageable)
      state.races.use(stream, operation, copy.destination, copy.bytes, target.data, origin.bytes,
                      true);
    to.put_back(target.bytes - origin.bytes);
    left -= origin.bytes;
  }
  return CUDA_SUCCESS;
}

CUresult run(State& state, const Context& context, const Stream& stream, Operation& operation,
             MemsetWork& memset) {
  if (!reachable(state, context, memset.destination, memset.bytes, Access::write))
    return CUDA_ERROR_ILLEGAL_ADDRESS;
  Walk to(state, Walk::Use::write, memset.destination, false);
  for (std::size_t left = memset.bytes; left != 0;) {
    const Piece target = to.next(left);
    std::memset(target.data, memset.value, target.bytes);
    state.races.use(stream, operation, memset.destination, memset.bytes, target.data, target.bytes,
                    true);
    left -= target.bytes;
  }
  return CUDA_SUCCESS;
}

CUresult run(State& state, const Context&, const Stream& stream, Operation& operation,
             RecordWork& record) {
  Event* event = state.events.find(record.event);
  if (event != nullptr && event->record.stream == stream.handle &&
      event->record.sequence == operation.sequence)
    event->time_ns = state.scheduler.now_ns();
  return CUDA_SUCCESS;
}

}  // namespace

bool read(State& state, std::uint64_t address, unsigned char* out, std::size_t bytes) {
  const Span span = state.addresses.span(address, bytes);
  if (span.kind != Span::Kind::device && span.kind != Span::Kind::pinned) return false;
  Walk from(state, Walk::Use::read, address, false);
  while (bytes != 0) {
    const Piece piece = from.next(bytes);
    std::memcpy(out, piece.data, piece.bytes);
    out += piece.bytes;
    bytes -= piece.bytes;
  }
  return true;
}

bool may_access(const Span& span, const Context& context, Access access) {
  if (span.kind == Span::Kind::pinned) return true;
  const bool copies = access == Access::copy_from || access == Access::copy_to;
  if (!span.mapped) {
    const DeviceSet reached = context.peers | device_bit(context.device);
    return copies || (reached & device_bit(span.device)) != 0;
  }
  DeviceSet who = device_bit(context.device);
  if (copies) who |= device_bit(span.device);
  const bool reads = access == Access::copy_from || access == Access::read;
  return ((reads ? span.readers : span.writers) & who) != 0;
}

CUresult perform(State& state, const Context& context, const Stream& stream, Operation& operation) {
  return std::visit([&](auto& work) { return run(state, context, stream, operation, work); },
                    operation.work);
}

}  // namespace berth::sim
