// SPDX-License-Identifier: Apache-2.0
#include "berth/copier.hpp"

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "berth/device_registry.hpp"
#include "berth/pinned_allocator.hpp"

#include "base/fork.hpp"
#include "copy/copy_arguments.hpp"
#include "copy/copy_dispatcher.hpp"
#include "copy/copy_request.hpp"
#include "copy/joined_streams.hpp"
#include "copy/operand/batch_plan.hpp"
#include "copy/operand/linear_copy.hpp"
#include "copy/operand/memory_kind.hpp"
#include "copy/operand/memory_sides.hpp"
#include "copy/operand/readable_memory.hpp"
#include "copy/operand/rows_copy.hpp"
#include "copy/transfer/composite_transfer.hpp"
#include "device/device_context.hpp"
#include "device/known_context.hpp"
#include "device/own_context.hpp"
#include "stream/capture.hpp"
#include "stream/wait_after_failure.hpp"

namespace berth {

/// Looks up the memory of a copy, determines its shape, and passes it to the dispatcher.
class BERTH_HIDDEN Copier::Impl {
 public:
  Impl(const DeviceRegistry& registry, PinnedAllocator& pinned, HostAllocator& host,
       CompletionQueue& completions, const CopierOptions& options)
      : registry_(registry),
        options_(options),
        sides_(registry, {pinned, host}),
        dispatcher_(registry, pinned, completions, options) {}

  using Request = CopyRequest;

  Transfer start(void* target, const void* source, std::size_t bytes, Request request) {
    if (bytes == 0) return dispatcher_.end(nullptr, std::move(request));
    check_ranges(target, source, bytes);
    const bool has_end = request.returns_transfer || request.has_end_action();
    if (bytes <= CopyDispatcher::kSmallBytes && !has_end && !request.other) {
      in_context(request.stream, [&] { copy_small(target, source, bytes, request); });
      return {};
    }
    const ContextScope scope(request.stream.context());
    return start(queried_copy(target, source, bytes, request.stream), std::move(request));
  }

  Transfer start_rows(const PitchedTarget& target, const PitchedSource& source,
                      std::size_t row_bytes, std::size_t rows, Request request) {
    if (row_bytes == 0 || rows == 0) return dispatcher_.end(nullptr, std::move(request));
    check_rows(target, source, row_bytes, rows);
    const ContextScope scope(request.stream.context());
    const auto extent = [&](std::size_t pitch) { return (rows - 1) * pitch + row_bytes; };
    const MemorySide to = sides_.find_target(target.data, extent(target.pitch), request.stream);
    const MemorySide from = sides_.find_source(source.data, extent(source.pitch), request.stream);
    const RowsCopy copy(to.kind, {to.data, target.pitch, row_bytes}, from.kind,
                        {from.data, source.pitch, row_bytes}, rows);
    return start(copy, std::move(request));
  }

  Transfer start_batch(std::span<const CopyRange> copies, Request request) {
    if (std::ranges::all_of(copies, [](const CopyRange& range) { return range.bytes == 0; }))
      return dispatcher_.end(nullptr, std::move(request));
    check_batch(copies);
    const ContextScope scope(request.stream.context());
    const std::vector<PlannedCopy> planned =
        plan_batch(copies, options_, [&](const void* data, std::size_t bytes) {
          return sides_.place_of(data, bytes, request.stream);
        });
    if (!request.other) {
      check(planned, request);
      return start(planned, std::move(request));
    }
    const auto suits = [&](StreamRef stream) {
      return std::ranges::all_of(planned, [&](const PlannedCopy& each) {
        return is_stream_of(each.copy->to(), each.copy->from(), stream);
      });
    };
    return start_joined(
        std::move(request), suits, [&](const Request& of_one) { check(planned, of_one); },
        [&](Request of_one) { return start(planned, std::move(of_one)); });
  }

  /// Between a range of a file and memory of a device.
  Transfer start(const FileRange& range, const void* memory, CopyDirection direction,
                 Request request) {
    if (range.bytes == 0) return dispatcher_.end(nullptr, std::move(request));
    check_range(memory, range.bytes,
                direction == CopyDirection::to_device ? kTargetName : kSourceName);
    const ContextScope scope(request.stream.context());
    const bool is_target = direction == CopyDirection::to_device;
    const MemorySide device =
        sides_.find(memory, range.bytes, is_target ? kTargetName : kSourceName, request.stream);
    return dispatcher_.start(range, device, direction, std::move(request));
  }

  void copy_on_host(std::byte* target, const std::byte* source, std::size_t bytes) {
    if (origin_.is_here()) {
      sides_.require_host_memory(target, bytes, kTargetName);
      sides_.require_host_memory(source, bytes, kSourceName);
    }
    require_writable(target, bytes);
    require_readable(source, bytes);
    dispatcher_.count_on_host(bytes);
    std::memcpy(target, source, bytes);
  }

  void fill(void* target, std::uint8_t value, std::size_t bytes, StreamRef stream) {
    const ContextScope scope(stream.context());
    const AllocationInfo place = sides_.place_of(target, bytes, stream);
    require_within(place, target, bytes, kFillName);
    dispatcher_.fill(MemorySides::side_at(target, place.kind), value, bytes, stream);
  }

  /// Returns when the target has the bytes.
  void copy(void* target, const void* source, std::size_t bytes, const CopyStreams& streams) {
    const StreamRef stream = streams.target_stream;
    const auto other = CopyRequest::other_of(streams);
    const bool is_small = bytes <= CopyDispatcher::kSmallBytes && bytes > 0 && !other;
    if (!is_small && is_capturing(stream)) refuse_captured(stream, "waited for");
    if (other && is_capturing(*other)) refuse_captured(*other, "waited for");
    const Request small{.stream = stream, .is_awaited = true};
    start(target, source, bytes, is_small ? small : Request::of_transfer(streams, {})).wait();
  }

  [[nodiscard]] bool is_here() const { return origin_.is_here(); }
  [[nodiscard]] CopyDispatcher& dispatcher() { return dispatcher_; }

 private:
  /// Calls `copy` with a current context in which the driver accepts copies on the stream. A
  /// created stream accepts copies in any context, so the driver is not queried if some context is
  /// likely to be current.
  /// Source: CUDA C++ Programming Guide, "Stream and Event Behavior".
  template <class Copy>
  static void in_context(StreamRef stream, const Copy& copy) {
    DeviceContext& context = stream.context();
    context.driver().require_here();
    const bool is_created = !stream.is_legacy_default() && !stream.is_per_thread_default();
    if (is_created && KnownContext::is_likely(context)) {
      try {
        return copy();
      } catch (const DriverError& error) {
        const int code = error.driver_code();
        if (code != CUDA_ERROR_INVALID_CONTEXT && code != CUDA_ERROR_CONTEXT_IS_DESTROYED) throw;
      }
    }
    const ContextScope scope(context);
    copy();
  }

  void copy_small(void* target, const void* source, std::size_t bytes, const Request& request) {
    const StreamRef stream = request.stream;
    const MemorySide from = sides_.recall(source, bytes, kSourceName, stream);
    CopyRequest checked = request;
    checked.is_checked = request.is_awaited && sides_.is_host_writable(target, bytes, from, stream);
    const MemorySide to = checked.is_checked ? MemorySide{static_cast<std::byte*>(target), {}}
                                             : sides_.recall(target, bytes, kTargetName, stream);
    try {
      dispatcher_.start(LinearCopy(to, from, bytes), checked);
    } catch (const InvalidArgument&) {
      if (!sides_.forget(target, source)) throw;
      dispatcher_.start(queried_copy(target, source, bytes, stream), request);
    } catch (const DriverError&) {
      if (sides_.forget(target, source))
        dispatcher_.prepare(queried_copy(target, source, bytes, stream), request);
      throw;
    }
  }

  LinearCopy queried_copy(const void* target, const void* source, std::size_t bytes,
                          StreamRef stream) const {
    const MemorySide to = sides_.find_target(target, bytes, stream);
    return {to, sides_.find_source(source, bytes, stream), bytes};
  }

  Transfer start(const CopyShape& copy, Request request) {
    if (!request.other) return dispatcher_.start(copy, std::move(request));
    return start_joined(
        std::move(request),
        [&](StreamRef stream) { return is_stream_of(copy.to(), copy.from(), stream); },
        [&](const Request& of_one) { dispatcher_.prepare(copy, of_one); },
        [&](Request of_one) { return dispatcher_.start(copy, std::move(of_one)); });
  }

  /// Submits the copy to one of the two streams, which `suits` selects; the other stream waits for
  /// it. `check` reports the errors of `start` before any stream waits for the other.
  template <class Suits, class Check, class Start>
  Transfer start_joined(Request request, const Suits& suits, const Check& check,
                        const Start& start) {
    const bool swaps = !suits(request.stream) && suits(*request.other);
    if (swaps) std::swap(request.stream, *request.other);
    const JoinedStreams streams{request.stream, *request.other};
    for (const StreamRef stream : {streams.stream, streams.other})
      require_own_context(registry_, stream.context(), "one of the two streams of a copy");
    const ContextScope scope(streams.stream.context());
    check(request);
    streams.require_like_captures();
    streams.begin(events_of_);
    std::vector<Transfer> parts;
    try {
      // on_done and keep_alive apply to the whole copy, once nothing can fail any more.
      parts.emplace_back() = start(request.returns_transfer ? request.part(true) : request);
      streams.end(events_of_);
      if (!request.returns_transfer) return {};
      return dispatcher_.end(std::make_shared<CompositeTransfer>(std::move(parts)),
                             std::move(request));
    } catch (...) {
      CompositeTransfer(std::move(parts)).wait();
      wait_after_failure(streams.stream);
      throw;
    }
  }

  /// Throws if any of the copies is invalid.
  void check(const std::vector<PlannedCopy>& planned, const Request& request) {
    for (const PlannedCopy& each : planned) dispatcher_.prepare(*each.copy, request);
  }

  /// After check().
  Transfer start(const std::vector<PlannedCopy>& planned, Request request) {
    if (planned.size() == 1) return start(planned[0], std::move(request));
    std::vector<Transfer> parts;
    try {
      parts.reserve(planned.size());
      for (const PlannedCopy& each : planned)
        parts.push_back(start(each, request.part(each.needs_host())));
      return dispatcher_.end(std::make_shared<CompositeTransfer>(std::move(parts)),
                             std::move(request));
    } catch (...) {
      CompositeTransfer(std::move(parts)).wait();
      throw;
    }
  }

  Transfer start(const PlannedCopy& planned, Request request) {
    using Preferred = CopyDispatcher::Preferred;
    return dispatcher_.start(*planned.copy, std::move(request),
                             planned.is_packed ? Preferred::staged : Preferred::direct);
  }

  const ForkOrigin origin_;
  const DeviceRegistry& registry_;
  const CopierOptions options_;
  MemorySides sides_;
  CopyDispatcher dispatcher_;
  const EventPoolOf events_of_ = [this](DeviceContext& context) -> EventPool& {
    return dispatcher_.events(context);
  };
};

Copier::Copier(const DeviceRegistry& registry, PinnedAllocator& pinned, HostAllocator& host,
               CompletionQueue& completions, CopierOptions options) {
  check_options(options);
  impl_ = std::make_unique<Impl>(registry, pinned, host, completions, options);
}

Copier::~Copier() {
  // A forked child has none of the threads, so it cannot wait for their work.
  if (!impl_->is_here()) keep_until_exit(std::move(impl_));
}

Transfer Copier::start(void* target, const void* source, std::size_t bytes, StreamRef stream,
                       TransferOptions options) {
  return impl_->start(target, source, bytes, CopyRequest::of_transfer(stream, std::move(options)));
}

Transfer Copier::start(void* target, const void* source, std::size_t bytes,
                       const CopyStreams& streams, TransferOptions options) {
  return impl_->start(target, source, bytes, CopyRequest::of_transfer(streams, std::move(options)));
}

Transfer Copier::start(void* target, const FileRange& source, StreamRef stream,
                       TransferOptions options) {
  return impl_->start(source, target, CopyDirection::to_device,
                      CopyRequest::of_transfer(stream, std::move(options)));
}

Transfer Copier::start(const FileRange& target, const void* source, StreamRef stream,
                       TransferOptions options) {
  return impl_->start(target, source, CopyDirection::to_host,
                      CopyRequest::of_transfer(stream, std::move(options)));
}

Transfer Copier::start_rows(PitchedTarget target, PitchedSource source, std::size_t row_bytes,
                            std::size_t rows, StreamRef stream, TransferOptions options) {
  return impl_->start_rows(target, source, row_bytes, rows,
                           CopyRequest::of_transfer(stream, std::move(options)));
}

Transfer Copier::start_rows(PitchedTarget target, PitchedSource source, std::size_t row_bytes,
                            std::size_t rows, const CopyStreams& streams, TransferOptions options) {
  return impl_->start_rows(target, source, row_bytes, rows,
                           CopyRequest::of_transfer(streams, std::move(options)));
}

Transfer Copier::start_batch(std::span<const CopyRange> copies, StreamRef stream,
                             TransferOptions options) {
  return impl_->start_batch(copies, CopyRequest::of_transfer(stream, std::move(options)));
}

Transfer Copier::start_batch(std::span<const CopyRange> copies, const CopyStreams& streams,
                             TransferOptions options) {
  return impl_->start_batch(copies, CopyRequest::of_transfer(streams, std::move(options)));
}

void Copier::copy_async(void* target, const void* source, std::size_t bytes, StreamRef stream) {
  impl_->start(target, source, bytes, {.stream = stream});
}

void Copier::copy_async(void* target, const void* source, std::size_t bytes,
                        const CopyStreams& streams) {
  impl_->start(target, source, bytes,
               {.stream = streams.target_stream, .other = CopyRequest::other_of(streams)});
}

void Copier::copy(void* target, const void* source, std::size_t bytes, StreamRef stream) {
  impl_->copy(target, source, bytes, {.target_stream = stream, .source_stream = stream});
}

void Copier::copy(void* target, const void* source, std::size_t bytes, const CopyStreams& streams) {
  impl_->copy(target, source, bytes, streams);
}

void Copier::copy(void* target, const void* source, std::size_t bytes) {
  if (bytes == 0) return;
  check_ranges(target, source, bytes);
  impl_->copy_on_host(static_cast<std::byte*>(target), static_cast<const std::byte*>(source),
                      bytes);
}

void Copier::fill_async(void* target, std::uint8_t value, std::size_t bytes, StreamRef stream) {
  if (bytes == 0) return;
  check_range(target, bytes, kFillName);
  impl_->fill(target, value, bytes, stream);
}

Transfer Copier::start_part(void* target, const void* source, std::size_t bytes, StreamRef stream,
                            TransferOptions options) {
  return impl_->start(target, source, bytes, CopyRequest::of_part(stream, std::move(options)));
}

void Copier::count_direct(std::size_t bytes) noexcept {
  impl_->dispatcher().count_direct(bytes);
}

CopyCounters Copier::counters() const {
  return impl_->dispatcher().counters();
}

}  // namespace berth
