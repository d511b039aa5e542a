// SPDX-License-Identifier: Apache-2.0
#include "sim/work/perform.hpp"

#include <cstring>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "sim/check/fault_finding.hpp"
#include "sim/state.hpp"
#include "sim/work/migration.hpp"
#include "sim/work/value_wait.hpp"
#include "sim/work/work_memory.hpp"

namespace berth::sim {
namespace {

/// Stretches begin and end at values: they are parts of pages, cut at the ends of an aligned fill.
void repeat(std::span<std::byte> target, std::uint32_t value, unsigned value_bytes) {
  if (value_bytes == 1) {
    std::memset(target.data(), static_cast<int>(value), target.size());
    return;
  }
  for (std::size_t at = 0; at != target.size(); at += value_bytes)
    std::memcpy(target.data() + at, &value, value_bytes);  // x86-64 and AArch64 are little-endian
}

/// Runs one operation, depending on its type.
class Performance {
 public:
  Performance(State& state, const Context& context, Stream& stream, const Operation& operation,
              const Clock& before)
      : state_(state), context_(context), stream_(stream), operation_(operation), before_(before) {}

  /// The kernel that has run, or polls; nullopt if the operation is not a kernel.
  std::optional<Arrival>& arrival() { return arrival_; }

  CUresult operator()(const WaitWork&) { return CUDA_SUCCESS; }
  CUresult operator()(const HostFunctionWork&) { return CUDA_SUCCESS; }
  CUresult operator()(const KernelWork& kernel);
  CUresult operator()(const CopyWork& copy);
  CUresult operator()(const FetchWork& fetch);
  CUresult operator()(const MemsetWork& memset);
  CUresult operator()(const RecordWork& record);
  CUresult operator()(const ArriveWork& arrival);
  CUresult operator()(const DepartWork& departure);
  CUresult operator()(const PrefetchWork& prefetch);
  CUresult operator()(const WaitValueWork& wait);
  CUresult operator()(const WriteValueWork& write);

 private:
  [[nodiscard]] Use use_of(UseKind kind, std::uint64_t address, std::uint64_t bytes) const {
    return {.stamp = operation_.stamp,
            .call = operation_.call,
            .stream = stream_.caller_handle,
            .address = address,
            .bytes = bytes,
            .kind = kind,
            .context = context_.handle,
            .device = context_.device};
  }
  /// Otherwise the work faults, and that is reported.
  [[nodiscard]] bool reaches(std::uint64_t address, std::size_t bytes, Access access,
                             bool pageable = false) const {
    const bool is_reached = pageable ? is_host_memory_mapped(state_, address, bytes, access)
                                     : is_reachable(state_, context_, address, bytes, access);
    if (is_reached) return true;
    const bool reads = access == Access::read || access == Access::copy_from;
    report_fault(state_, use_of(reads ? UseKind::reads : UseKind::writes, address, bytes));
    return false;
  }
  /// Performs the operation on `bytes` at `address`, a contiguous stretch.
  void use(UseKind kind, std::uint64_t address, std::uint64_t bytes,
           std::span<const std::byte> stretch, std::uint64_t mapping) {
    Use stretch_use = use_of(kind, address, bytes);
    stretch_use.mapping = mapping;
    state_.races.use(state_, stretch_use, before_, stretch, arrival_ ? &*arrival_ : nullptr);
  }
  [[nodiscard]] Arrival current_arrival() const { return {before_, operation_.stamp}; }
  [[nodiscard]] bool reaches_all(const CopyWork& copy) const;
  void copy_row(const CopyWork& copy, std::size_t row);
  void fetch_row(const FetchWork& fetch, std::size_t row);
  void fill_row(const MemsetWork& memset, std::size_t row);
  /// Perform ArriveWork and DepartWork on pool memory.
  void use_whole(UseKind kind, const Range& range);

  State& state_;
  const Context& context_;
  Stream& stream_;
  const Operation& operation_;
  const Clock& before_;
  std::optional<Arrival> arrival_;
};

CUresult Performance::operator()(const KernelWork& kernel) {
  if (state_.config.kernels == Kernels::skip) state_.skipped_launches.add();
  const bool is_there = kernel.resident != Resident::when_ready && stream_.kernel_arrival;
  if (state_.order.on()) arrival_ = is_there ? stream_.kernel_arrival : current_arrival();
  for (const MemoryUse& uses : kernel.uses) {
    const Access access = uses.writes ? Access::write : Access::read;
    if (!reaches(uses.address, uses.bytes, access)) return CUDA_ERROR_ILLEGAL_ADDRESS;
    MemoryWalk walk(state_, uses.writes ? MemoryWalk::Use::write : MemoryWalk::Use::read,
                    uses.address);
    for (std::size_t left = uses.bytes; left != 0;) {
      const std::span<std::byte> stretch = walk.next(left);
      use(uses.writes ? UseKind::writes : UseKind::reads, uses.address, uses.bytes, stretch,
          walk.mapping());
      left -= stretch.size();
    }
  }
  return CUDA_SUCCESS;
}

bool Performance::reaches_all(const CopyWork& copy) const {
  return reaches(copy.destination, copy.destination_extent(), Access::copy_to,
                 copy.destination_pageable) &&
         (copy.staged != nullptr ||
          reaches(copy.source, copy.source_extent(), Access::copy_from, copy.source_pageable));
}

void Performance::copy_row(const CopyWork& copy, std::size_t row) {
  const bool reads_source = !copy.source_pageable && copy.staged == nullptr;
  const std::uint64_t source =
      copy.staged ? reinterpret_cast<std::uint64_t>(copy.staged.get()) + row * copy.width
                  : copy.source + row * copy.source_pitch;
  const std::uint64_t destination = copy.destination + row * copy.destination_pitch;
  MemoryWalk from(state_, MemoryWalk::Use::read, source, !reads_source);
  MemoryWalk to(state_, MemoryWalk::Use::write, destination, copy.destination_pageable);
  for (std::size_t left = copy.width; left != 0;) {
    std::span<std::byte> target = to.next(left);
    const std::span<std::byte> origin = from.next(target.size());
    to.put_back(target.size() - origin.size());
    target = target.first(origin.size());
    std::memmove(target.data(), origin.data(), origin.size());
    if (reads_source) use(UseKind::reads, copy.source, copy.total(), origin, from.mapping());
    if (!copy.destination_pageable)
      use(UseKind::writes, copy.destination, copy.total(), target, to.mapping());
    left -= origin.size();
  }
}

CUresult Performance::operator()(const CopyWork& copy) {
  if (!reaches_all(copy)) return CUDA_ERROR_ILLEGAL_ADDRESS;
  for (std::size_t row = 0; row < copy.rows; ++row) copy_row(copy, row);
  return CUDA_SUCCESS;
}

void Performance::fetch_row(const FetchWork& fetch, std::size_t row) {
  MemoryWalk from(state_, MemoryWalk::Use::read, fetch.source + row * fetch.source_pitch,
                  fetch.source_pageable);
  std::byte* const into = fetch.into.get() + row * fetch.width;
  for (std::size_t done = 0; done != fetch.width;) {
    const std::span<std::byte> origin = from.next(fetch.width - done);
    std::memcpy(into + done, origin.data(), origin.size());
    if (!fetch.source_pageable)
      use(UseKind::reads, fetch.source, fetch.total(), origin, from.mapping());
    done += origin.size();
  }
}

CUresult Performance::operator()(const FetchWork& fetch) {
  if (!reaches(fetch.source, fetch.source_extent(), Access::copy_from, fetch.source_pageable))
    return CUDA_ERROR_ILLEGAL_ADDRESS;
  for (std::size_t row = 0; row < fetch.rows; ++row) fetch_row(fetch, row);
  return CUDA_SUCCESS;
}

void Performance::fill_row(const MemsetWork& memset, std::size_t row) {
  MemoryWalk to(state_, MemoryWalk::Use::write, memset.destination + row * memset.pitch);
  for (std::size_t left = memset.width; left != 0;) {
    const std::span<std::byte> target = to.next(left);
    repeat(target, memset.value, memset.value_bytes);
    use(UseKind::writes, memset.destination, memset.total(), target, to.mapping());
    left -= target.size();
  }
}

CUresult Performance::operator()(const MemsetWork& memset) {
  const std::size_t bytes = extent(memset.width, memset.rows, memset.pitch);
  if (!reaches(memset.destination, bytes, Access::write)) return CUDA_ERROR_ILLEGAL_ADDRESS;
  for (std::size_t row = 0; row < memset.rows; ++row) fill_row(memset, row);
  return CUDA_SUCCESS;
}

CUresult Performance::operator()(const RecordWork& record) {
  Event* event = state_.events.find(record.event);
  if (event != nullptr && event->record.stream == stream_.handle &&
      event->record.sequence == operation_.sequence)
    event->time_ns = state_.scheduler.now_ns();
  if (record.shared != nullptr) record.shared->end_record(record.number);
  return CUDA_SUCCESS;
}

void Performance::use_whole(UseKind kind, const Range& range) {
  for (std::uint64_t at = 0; at < range.bytes;) {
    const std::span<std::byte> stretch = bytes_of(state_, range, at);
    use(kind, range.start, range.bytes, stretch, mapping_of(range, at, stretch));
    at += stretch.size();
  }
}

CUresult Performance::operator()(const ArriveWork& arrival) {
  if (state_.addresses.arrive(*arrival.range)) use_whole(UseKind::begins, *arrival.range);
  return CUDA_SUCCESS;
}

CUresult Performance::operator()(const DepartWork& departure) {
  const Range& range = *departure.range;
  if (state_.addresses.depart(range))
    use_whole(UseKind::ends, range);
  else
    state_.races.check_order(state_, use_of(UseKind::ends, range.start, range.bytes), range);
  state_.ended_memory.note(state_, *departure.range, operation_.call);
  return CUDA_SUCCESS;
}

CUresult Performance::operator()(const PrefetchWork& prefetch) {
  state_.advice.change(prefetch.address, prefetch.bytes,
                       [&](Advice& advice) { advice.resident = prefetch.slot; });
  return CUDA_SUCCESS;
}

CUresult Performance::operator()(const WaitValueWork& wait) {
  if (wait.event != nullptr) return CUDA_SUCCESS;
  if (!reaches(wait.address, wait.bytes, Access::read)) return CUDA_ERROR_ILLEGAL_ADDRESS;
  const std::byte* source = locate(state_, context_, wait.address, wait.bytes, Access::read);
  const bool from_host =
      state_.addresses.span_for_work(wait.address, wait.bytes).kind == Span::Kind::pinned;
  if (wait.is_kernel && state_.order.on()) arrival_ = current_arrival();
  state_.races.acquire(stream_.order, operation_.stamp, source, from_host);
  return CUDA_SUCCESS;
}

CUresult Performance::operator()(const WriteValueWork& write) {
  if (!reaches(write.address, write.bytes, Access::write)) return CUDA_ERROR_ILLEGAL_ADDRESS;
  std::byte* target = locate(state_, context_, write.address, write.bytes, Access::write);
  store_value(target, write.value, write.bytes);
  state_.races.release(before_, target, write.value, write.bytes);
  return CUDA_SUCCESS;
}

}  // namespace

CUresult perform(State& state, const Context& context, Stream& stream, const Operation& operation,
                 const Clock& before) {
  Performance performance(state, context, stream, operation, before);
  const CUresult result = std::visit(performance, operation.work);
  if (result == CUDA_SUCCESS) migrate(state, stream.device, operation.work);
  if (state.order.on()) stream.kernel_arrival = std::move(performance.arrival());
  return result;
}

std::vector<std::vector<std::byte>> copies_for(State& state, const KernelWork& kernel) {
  std::vector<std::vector<std::byte>> copies;
  for (const MemoryUse& uses : kernel.uses)
    read(state, uses.address, copies.emplace_back(uses.bytes));
  return copies;
}

CUresult take_back(State& state, const Context& context, const Stream& stream,
                   const Operation& operation, const KernelWork& kernel,
                   std::span<const std::span<std::byte>> ranges) {
  for (std::size_t index = 0; index != ranges.size(); ++index) {
    const MemoryUse& uses = kernel.uses[index];
    if (!uses.writes) continue;
    if (!is_reachable(state, context, uses.address, uses.bytes, Access::write)) {
      report_fault(state, {.stamp = operation.stamp,
                           .call = operation.call,
                           .stream = stream.caller_handle,
                           .address = uses.address,
                           .bytes = uses.bytes,
                           .kind = UseKind::writes});
      return CUDA_ERROR_ILLEGAL_ADDRESS;
    }
    write(state, uses.address, ranges[index]);
  }
  return CUDA_SUCCESS;
}

}  // namespace berth::sim
