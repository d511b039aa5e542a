// SPDX-License-Identifier: Apache-2.0
#include "sim/perform.hpp"

#include <cstring>

#include "sim/state.hpp"
#include "sim/value_wait.hpp"
#include "sim/work_memory.hpp"

namespace berth::sim {
namespace {

/// Runs one operation, by what work it is.
class Performance {
 public:
  Performance(State& state, const Context& context, const Stream& stream,
              const Operation& operation)
      : state_(state), context_(context), stream_(stream), operation_(operation) {}

  CUresult operator()(const WaitWork&) { return CUDA_SUCCESS; }
  CUresult operator()(const HostFunctionWork&) { return CUDA_SUCCESS; }
  CUresult operator()(const KernelWork& kernel);
  CUresult operator()(const CopyWork& copy);
  CUresult operator()(const MemsetWork& memset);
  CUresult operator()(const RecordWork& record);
  CUresult operator()(const ArriveWork& arrival);
  CUresult operator()(const DepartWork& departure);
  CUresult operator()(const WaitValueWork& wait);
  CUresult operator()(const WriteValueWork& write);

 private:
  [[nodiscard]] bool reaches(std::uint64_t address, std::size_t bytes, Access access) const {
    return is_reachable(state_, context_, address, bytes, access);
  }
  /// A stretch of what the operation does to `bytes` at `address`.
  void use(UseKind kind, std::uint64_t address, std::uint64_t bytes,
           std::span<const std::byte> stretch) {
    state_.races.use(
        {operation_.stamp, operation_.call, stream_.callers_handle, address, bytes, kind},
        operation_.before, stretch);
  }
  /// What ArriveWork and DepartWork do to memory of a pool.
  void use_whole(UseKind kind, const Range& range);

  State& state_;
  const Context& context_;
  const Stream& stream_;
  const Operation& operation_;
};

CUresult Performance::operator()(const KernelWork& kernel) {
  for (const KernelUse& uses : kernel.uses) {
    const Access access = uses.writes ? Access::write : Access::read;
    if (!reaches(uses.address, uses.bytes, access)) return CUDA_ERROR_ILLEGAL_ADDRESS;
    MemoryWalk walk(state_, uses.writes ? MemoryWalk::Use::write : MemoryWalk::Use::read,
                    uses.address);
    for (std::size_t left = uses.bytes; left != 0;) {
      const std::span<std::byte> stretch = walk.next(left);
      use(uses.writes ? UseKind::writes : UseKind::reads, uses.address, uses.bytes, stretch);
      left -= stretch.size();
    }
  }
  return CUDA_SUCCESS;
}

CUresult Performance::operator()(const CopyWork& copy) {
  const bool source_is_ours = !copy.source_pageable && copy.staged == nullptr;
  const bool reads_pageable = copy.source_pageable && copy.staged == nullptr;
  const bool reaches_all =
      (!source_is_ours || reaches(copy.source, copy.bytes, Access::copy_from)) &&
      (copy.destination_pageable || reaches(copy.destination, copy.bytes, Access::copy_to)) &&
      (!reads_pageable || is_host_memory_there(state_, copy.source, copy.bytes)) &&
      (!copy.destination_pageable || is_host_memory_there(state_, copy.destination, copy.bytes));
  if (!reaches_all) return CUDA_ERROR_ILLEGAL_ADDRESS;

  const std::uint64_t source =
      copy.staged ? reinterpret_cast<std::uint64_t>(copy.staged.get()) : copy.source;
  MemoryWalk from(state_, MemoryWalk::Use::read, source, !source_is_ours);
  MemoryWalk to(state_, MemoryWalk::Use::write, copy.destination, copy.destination_pageable);
  for (std::size_t left = copy.bytes; left != 0;) {
    std::span<std::byte> target = to.next(left);
    const std::span<std::byte> origin = from.next(target.size());
    to.put_back(target.size() - origin.size());
    target = target.first(origin.size());
    std::memmove(target.data(), origin.data(), origin.size());
    if (source_is_ours) use(UseKind::reads, copy.source, copy.bytes, origin);
    if (!copy.destination_pageable) use(UseKind::writes, copy.destination, copy.bytes, target);
    left -= origin.size();
  }
  return CUDA_SUCCESS;
}

CUresult Performance::operator()(const MemsetWork& memset) {
  if (!reaches(memset.destination, memset.bytes, Access::write)) return CUDA_ERROR_ILLEGAL_ADDRESS;
  MemoryWalk to(state_, MemoryWalk::Use::write, memset.destination);
  for (std::size_t left = memset.bytes; left != 0;) {
    const std::span<std::byte> target = to.next(left);
    std::memset(target.data(), memset.value, target.size());
    use(UseKind::writes, memset.destination, memset.bytes, target);
    left -= target.size();
  }
  return CUDA_SUCCESS;
}

CUresult Performance::operator()(const RecordWork& record) {
  Event* event = state_.events.find(record.event);
  if (event != nullptr && event->record.stream == stream_.handle &&
      event->record.sequence == operation_.sequence)
    event->time_ns = state_.scheduler.now_ns();
  return CUDA_SUCCESS;
}

void Performance::use_whole(UseKind kind, const Range& range) {
  for (std::uint64_t at = 0; at < range.bytes;) {
    const std::span<std::byte> stretch = bytes_of(state_, range, at);
    use(kind, range.start, range.bytes, stretch);
    at += stretch.size();
  }
}

CUresult Performance::operator()(const ArriveWork& arrival) {
  if (state_.addresses.arrive(*arrival.range)) use_whole(UseKind::begins, *arrival.range);
  return CUDA_SUCCESS;
}

CUresult Performance::operator()(const DepartWork& departure) {
  if (state_.addresses.depart(*departure.range)) use_whole(UseKind::ends, *departure.range);
  return CUDA_SUCCESS;
}

CUresult Performance::operator()(const WaitValueWork& wait) {
  const std::byte* source = locate(state_, context_, wait.address, wait.bytes, Access::read);
  if (source == nullptr) return CUDA_ERROR_ILLEGAL_ADDRESS;
  const bool from_host =
      state_.addresses.span_for_work(wait.address, wait.bytes).kind == Span::Kind::pinned;
  state_.races.acquire(operation_.stamp, source, from_host);
  return CUDA_SUCCESS;
}

CUresult Performance::operator()(const WriteValueWork& write) {
  std::byte* target = locate(state_, context_, write.address, write.bytes, Access::write);
  if (target == nullptr) return CUDA_ERROR_ILLEGAL_ADDRESS;
  store_value(target, write.value, write.bytes);
  state_.races.release(operation_.before, target);
  return CUDA_SUCCESS;
}

}  // namespace

CUresult perform(State& state, const Context& context, const Stream& stream,
                 const Operation& operation) {
  return std::visit(Performance(state, context, stream, operation), operation.work);
}

}  // namespace berth::sim
