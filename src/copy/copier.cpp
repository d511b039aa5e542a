// SPDX-License-Identifier: Apache-2.0
#include "berth/copier.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "berth/bytes.hpp"
#include "berth/completion_queue.hpp"
#include "berth/device_registry.hpp"
#include "berth/pinned_allocator.hpp"

#include "base/fork.hpp"
#include "copy/batch_plan.hpp"
#include "copy/composite_transfer.hpp"
#include "copy/copy_arguments.hpp"
#include "copy/direct_submission.hpp"
#include "copy/linear_copy.hpp"
#include "copy/memory_kind.hpp"
#include "copy/peer_access.hpp"
#include "copy/rows_copy.hpp"
#include "copy/staged_copies.hpp"
#include "copy/transfer_state.hpp"
#include "device/device_context.hpp"
#include "stream/capture.hpp"
#include "stream/settle.hpp"

namespace berth {
namespace {

using Type = MemoryKind::Type;
using Batches = DirectSubmission::Batches;

/// Up to this a source is copied into pinned memory at once, in some microseconds: less than it takes to
/// wake a thread.
constexpr std::size_t kSmallSourceBytes = 64_KiB;

}  // namespace

class Copier::Impl {
 public:
  Impl(const DeviceRegistry& registry, PinnedAllocator& pinned, CompletionQueue& completions,
       const CopierOptions& options)
      : registry_(registry),
        pinned_(pinned),
        completions_(completions),
        part_bytes_(options.direct_piece_bytes),
        staged_(registry, pinned, options) {}

  /// What is asked of a copy beyond its bytes.
  struct Request {
    StreamRef stream;
    bool reads_source_now = false;
    bool wants_transfer = false;
    TransferOptions options{};

    [[nodiscard]] bool wants_end() const {
      return options.on_done != nullptr || options.keep_alive != nullptr;
    }
    /// For one of several copies, at whose common end the rest happens.
    [[nodiscard]] Request part() const {
      return {.stream = stream,
              .wants_transfer = true,
              .options = {.keep_alive = options.keep_alive, .priority = options.priority}};
    }
  };

  Transfer start(void* target, const void* source, std::size_t bytes, Request request) {
    if (bytes == 0) return end(Transfer(), std::move(request));
    check_ranges(target, source, bytes);
    const ContextScope scope(request.stream.context());
    return start(LinearCopy(side(target, request), side(source, request), bytes),
                 std::move(request));
  }

  Transfer start_rows(const PitchedTarget& target, const PitchedSource& source,
                      std::size_t row_bytes, std::size_t rows, Request request) {
    if (row_bytes == 0 || rows == 0) return end(Transfer(), std::move(request));
    check_rows(target, source, row_bytes, rows);
    const ContextScope scope(request.stream.context());
    const MemorySide to = side(target.data, request);
    const MemorySide from = side(source.data, request);
    return start(RowsCopy(to.kind, {to.data, target.pitch, row_bytes}, from.kind,
                          {from.data, source.pitch, row_bytes}, rows),
                 std::move(request));
  }

  Transfer start_batch(std::span<const CopyRange> copies, Request request) {
    if (std::ranges::all_of(copies, [](const CopyRange& range) { return range.bytes == 0; }))
      return end(Transfer(), std::move(request));
    check_batch(copies);
    const ContextScope scope(request.stream.context());
    const Driver& driver = request.stream.context().driver();
    const std::vector<PlannedCopy> planned = plan_batch(copies, [&](const void* data) {
      return find_memory_place(registry_, pinned_, driver, data);
    });
    if (planned.size() == 1) return start(planned[0], std::move(request));
    // All are refused where one would be.
    for (const PlannedCopy& each : planned) static_cast<void>(route_of(*each.copy, request));
    std::vector<Transfer> parts;
    try {
      for (const PlannedCopy& each : planned) parts.push_back(start(each, request.part()));
    } catch (...) {
      CompositeTransfer(std::move(parts)).wait();
      throw;
    }
    return end(Transfer(std::make_shared<CompositeTransfer>(std::move(parts))), std::move(request));
  }

  void copy_on_host(std::byte* target, const std::byte* source, std::size_t bytes) {
    require_host(target);
    require_host(source);
    bytes_copied_ += bytes;
    copy_host(target, source, bytes);
  }

  void fill(void* target, std::uint8_t value, std::size_t bytes, StreamRef stream) {
    const Driver& driver = stream.context().driver();
    const ContextScope scope(stream.context());
    const MemoryKind kind = find_memory_kind(registry_, pinned_, driver, target);
    if (kind.type != Type::managed && kind.device != &stream.context()) {
      throw InvalidArgument(
          fmt::format("cannot fill {} on a stream of {}; accepted: memory of that device", target,
                      stream.device().to_string()));
    }
    driver.memset_d8_async(reinterpret_cast<CUdeviceptr>(target), value, bytes, stream.native());
  }

  void count_direct(std::size_t bytes) noexcept {
    ++copies_direct_;
    bytes_copied_ += bytes;
  }

  [[nodiscard]] bool is_here() const { return origin_.is_here(); }

  [[nodiscard]] CopyCounters counters() const {
    return {.copies_direct = copies_direct_,
            .copies_staged = copies_staged_,
            .copies_by_driver = copies_by_driver_,
            .copies_host = copies_host_,
            .bytes_copied = bytes_copied_,
            .staging_waits = staged_.waits()};
  }

 private:
  /// How a copy goes.
  enum class Way { on_host, staged, direct };
  struct Route {
    Way way;
    bool is_captured;
  };

  MemorySide side(const void* data, const Request& request) {
    auto* const bytes = static_cast<std::byte*>(const_cast<void*>(data));  // nobody writes a source
    const Driver& driver = request.stream.context().driver();
    return {bytes, find_memory_kind(registry_, pinned_, driver, data)};
  }

  /// Errors  InvalidArgument, StreamCaptured: not this copy on this stream.
  Route route_of(const CopyShape& shape, const Request& request, bool is_packed = false) {
    const StreamRef stream = request.stream;
    const bool is_on_host = shape.to().is_host() && shape.from().is_host();
    const bool has_pageable =
        shape.to().type == Type::pageable || shape.from().type == Type::pageable;
    if (!is_on_host) require_stream_of(shape.to(), shape.from(), stream);
    const bool by_host = is_on_host || has_pageable;
    // Asked only where it matters: a small copy of pinned memory goes its way without.
    const bool is_captured = (by_host || request.wants_transfer || shape.bytes() > part_bytes_) &&
                             is_capturing_in_scope(stream);
    // A graph would not do again what the host does itself, and has no end.
    if (is_captured && by_host) refuse_captured(stream, "given a copy by the host");
    if (is_captured && request.wants_end()) refuse_captured(stream, "given a transfer with an end");
    if (is_captured) return {Way::direct, true};
    if (is_on_host) return {Way::on_host, false};
    return {has_pageable || is_packed ? Way::staged : Way::direct, false};
  }

  Transfer start(const PlannedCopy& planned, Request request) {
    return start(*planned.copy, std::move(request), planned.is_packed);
  }

  /// Within a ContextScope of the stream's device.
  Transfer start(const CopyShape& shape, Request request, bool is_packed = false) {
    const Route route = route_of(shape, request, is_packed);
    bytes_copied_ += shape.bytes();
    switch (route.way) {
      case Way::on_host:
        return copy_on_host(shape, std::move(request));
      case Way::staged:
        return copy_staged(shape, std::move(request));
      case Way::direct:
        break;
    }
    ++copies_direct_;
    return copy_direct(shape, std::move(request), route.is_captured);
  }

  Transfer copy_on_host(const CopyShape& shape, Request request) {
    ++copies_host_;
    Transfer transfer;
    if (request.wants_transfer) transfer = Transfer(std::make_shared<HostTransfer>(shape.bytes()));
    shape.copy_on_host();
    return end(std::move(transfer), std::move(request));
  }

  void copy_host(std::byte* target, const std::byte* source, std::size_t bytes) {
    ++copies_host_;
    std::memcpy(target, source, bytes);
  }

  /// Without a context there is no device memory yet, and looking should not make one.
  void require_host(const void* data) const {
    if (!origin_.is_here()) return;
    for (int ordinal = 0; ordinal < registry_.count(); ++ordinal) {
      DeviceContext& context = registry_.context(Device::cuda(ordinal));
      if (!context.is_used()) continue;
      const ContextScope scope(context);
      const MemoryKind kind = find_memory_kind(registry_, pinned_, context.driver(), data);
      if (kind.type != Type::device) return;
      throw InvalidArgument(
          fmt::format("{} is memory of {}; accepted without a stream: host memory", data,
                      kind.device->device().to_string()));
    }
  }

  /// By the driver alone. A graph has one node for one copy, and no marks; pageable memory is in no batch,
  /// because nobody says when the driver reads it.
  Transfer copy_direct(const CopyShape& shape, Request request, bool is_captured) {
    const bool has_pageable =
        shape.to().type == Type::pageable || shape.from().type == Type::pageable;
    const Submission how{.part_bytes = is_captured ? ~std::size_t{0} : part_bytes_,
                         .batches = is_captured || has_pageable ? Batches::no : Batches::yes,
                         .is_marked = request.wants_transfer && !is_captured};
    const DevicePair devices(shape.to(), shape.from());
    if (devices.are_different()) {
      DeviceContext& user = request.stream.context();
      peers_.enable(user, &user == devices.to ? *devices.from : *devices.to);
    }
    shape.record_blocks(pinned_, request.stream);
    return submit(request, how, shape.bytes(), devices,
                  [&](DirectSubmission& submission) { shape.submit(submission); });
  }

  struct Submission {
    std::size_t part_bytes;
    Batches batches;
    bool is_marked;
  };

  /// What `add` adds to a submission.
  template <class Add>
  Transfer submit(Request& request, const Submission& how, std::size_t bytes,
                  const DevicePair& devices, const Add& add) {
    const StreamRef stream = request.stream;
    DirectSubmission submission(stream, devices, how.part_bytes, how.batches);
    std::shared_ptr<DirectTransfer> transfer;
    if (how.is_marked) {
      transfer = std::make_shared<DirectTransfer>(bytes);
      submission.mark_for(*transfer, staged_.events(stream.context()));
    }
    try {
      add(submission);
      return end(Transfer(std::move(transfer)), std::move(request));
    } catch (...) {
      settle(stream);  // a part may be under way, and the caller's memory go
      throw;
    }
  }

  Transfer copy_staged(const CopyShape& shape, Request request) {
    const auto direction =
        shape.from().is_host() ? CopyDirection::to_device : CopyDirection::to_host;
    const bool is_to_device = direction == CopyDirection::to_device;
    if (is_to_device && shape.bytes() <= kSmallSourceBytes &&
        !request.stream.is_per_thread_default()) {
      if (auto pinned = pinned_.try_allocate(shape.bytes())) {
        ++copies_staged_;
        return copy_through(pinned.value(), shape, request);
      }
    }
    shape.record_blocks(pinned_, request.stream);
    StagedRoute route{.direction = direction,
                      .host = shape.host_end(direction),
                      .device = shape.device_end(direction),
                      .bytes = shape.bytes(),
                      .is_read_at_once = is_to_device && request.reads_source_now,
                      .keep_alive = request.options.keep_alive};
    const HostWork::CopyPtr copy =
        staged_.start(request.stream, std::move(route), priority_of(request));
    if (copy == nullptr) {
      ++copies_by_driver_;
      return copy_direct(shape, std::move(request), false);
    }
    ++copies_staged_;
    if (is_to_device && request.reads_source_now) staged_.complete_reading(copy);
    if (!request.wants_transfer) return {};
    request.options.keep_alive = nullptr;  // the copy has it
    Transfer transfer(std::make_shared<StagedTransfer>(staged_.work(), copy));
    try {
      return end(transfer, std::move(request));
    } catch (...) {
      staged_.work().complete(copy);
      throw;
    }
  }

  /// The block may go at once: its reuse waits for the stream.
  Transfer copy_through(const Allocation& pinned, const CopyShape& shape, Request& request) {
    auto* const staging = static_cast<std::byte*>(pinned.data());
    shape.host_end(CopyDirection::to_device)->read(staging, 0, shape.bytes());
    const auto device = shape.device_end(CopyDirection::to_device);
    pinned_.record_stream(pinned.data(), request.stream);
    const Submission how{part_bytes_, Batches::yes, request.wants_transfer};
    return submit(request, how, shape.bytes(), {}, [&](DirectSubmission& submission) {
      submission.add_staged(*device, staging, shape.bytes());
    });
  }

  static int priority_of(const Request& request) {
    if (request.options.priority) return *request.options.priority;
    int priority = 0;  // where the driver cannot say, all streams are alike
    request.stream.context().driver().try_stream_get_priority(request.stream.native(), &priority);
    return priority;
  }

  /// Sees to what is to happen at the end.
  /// Errors  As CompletionQueue::when_done(): nothing will happen then.
  Transfer end(Transfer transfer, Request request) {
    if (!request.wants_end()) return transfer;
    completions_.when_done(
        request.stream, [transfer, keep_alive = std::move(request.options.keep_alive),
                         on_done = std::move(request.options.on_done)](std::exception_ptr failure) {
          // Of a failure of the device and one of its own a transfer tells the second.
          const std::exception_ptr own = transfer.failure();
          if (on_done) on_done(own != nullptr ? own : failure);
        });
    return transfer;
  }

  const ForkOrigin origin_;
  const DeviceRegistry& registry_;
  PinnedAllocator& pinned_;
  CompletionQueue& completions_;

  std::atomic<std::uint64_t> copies_direct_ = 0;
  std::atomic<std::uint64_t> copies_staged_ = 0;
  std::atomic<std::uint64_t> copies_by_driver_ = 0;
  std::atomic<std::uint64_t> copies_host_ = 0;
  std::atomic<std::uint64_t> bytes_copied_ = 0;

  const std::size_t part_bytes_;
  PeerAccess peers_;
  StagedCopies staged_;
};

Copier::Copier(const DeviceRegistry& registry, PinnedAllocator& pinned,
               CompletionQueue& completions, CopierOptions options) {
  check_options(options);
  impl_ = std::make_unique<Impl>(registry, pinned, completions, options);
}

Copier::~Copier() {
  // A forked child has none of the threads, and cannot wait for what they were doing.
  if (!impl_->is_here()) keep_until_exit(std::move(impl_));
}

Transfer Copier::start(void* target, const void* source, std::size_t bytes, StreamRef stream,
                       TransferOptions options) {
  return impl_->start(target, source, bytes,
                      {.stream = stream, .wants_transfer = true, .options = std::move(options)});
}

Transfer Copier::start_rows(PitchedTarget target, PitchedSource source, std::size_t row_bytes,
                            std::size_t rows, StreamRef stream, TransferOptions options) {
  return impl_->start_rows(
      target, source, row_bytes, rows,
      {.stream = stream, .wants_transfer = true, .options = std::move(options)});
}

Transfer Copier::start_batch(std::span<const CopyRange> copies, StreamRef stream,
                             TransferOptions options) {
  return impl_->start_batch(
      copies, {.stream = stream, .wants_transfer = true, .options = std::move(options)});
}

void Copier::copy_async(void* target, const void* source, std::size_t bytes, StreamRef stream) {
  impl_->start(target, source, bytes, {.stream = stream, .reads_source_now = true});
}

void Copier::copy(void* target, const void* source, std::size_t bytes, StreamRef stream) {
  if (is_capturing(stream)) refuse_captured(stream, "waited for");
  start(target, source, bytes, stream).wait();
}

void Copier::copy(void* target, const void* source, std::size_t bytes) {
  if (bytes == 0) return;
  check_ranges(target, source, bytes);
  impl_->copy_on_host(static_cast<std::byte*>(target), static_cast<const std::byte*>(source),
                      bytes);
}

void Copier::fill_async(void* target, std::uint8_t value, std::size_t bytes, StreamRef stream) {
  if (bytes == 0) return;
  check_range(target, bytes, "target");
  impl_->fill(target, value, bytes, stream);
}

void Copier::count_direct(std::size_t bytes) noexcept {
  impl_->count_direct(bytes);
}

CopyCounters Copier::counters() const {
  return impl_->counters();
}

}  // namespace berth
