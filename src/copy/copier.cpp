// SPDX-License-Identifier: Apache-2.0
#include "berth/copier.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "berth/bytes.hpp"
#include "berth/completion_queue.hpp"
#include "berth/device_registry.hpp"
#include "berth/pinned_allocator.hpp"

#include "base/fork.hpp"
#include "copy/copy_ends.hpp"
#include "copy/copy_workers.hpp"
#include "copy/direct_copies.hpp"
#include "copy/memory_kind.hpp"
#include "copy/staged_copies.hpp"
#include "copy/transfer_state.hpp"
#include "device/device_context.hpp"
#include "stream/capture.hpp"
#include "stream/settle.hpp"
#include "stream/unasked.hpp"

namespace berth {
namespace {

using Type = MemoryKind::Type;

/// Up to this a source is copied into pinned memory at once, in some microseconds: less than it takes to
/// wake a thread.
constexpr std::size_t kSmallSourceBytes = 64_KiB;

void check_piece(const char* option, std::size_t bytes) {
  if (bytes >= 64_KiB && bytes % 4_KiB == 0) return;
  throw InvalidArgument(fmt::format(
      "CopierOptions::{} is {}; accepted: 64 KiB or more, a multiple of 4 KiB", option, bytes));
}

void check(const CopierOptions& options) {
  check_piece("staging_slot_bytes", options.staging_slot_bytes);
  check_piece("direct_piece_bytes", options.direct_piece_bytes);
  if (options.staging_slots < 2) {
    throw InvalidArgument(fmt::format("CopierOptions::staging_slots is {}; accepted: 2 or more",
                                      options.staging_slots));
  }
  const std::size_t workers = options.workers.value_or(1);
  if (workers < 1 || workers > CopyWorkers::kMax) {
    throw InvalidArgument(
        fmt::format("CopierOptions::workers is {}; accepted: 1 to {}", workers, CopyWorkers::kMax));
  }
}

void check_range(const void* data, std::size_t bytes, const char* side) {
  const auto address = reinterpret_cast<std::uintptr_t>(data);
  if (data == nullptr || address + bytes < address) {
    throw InvalidArgument(fmt::format(
        "the {} of a copy is {} with {} B; accepted: an address that is not null, and a range that "
        "does not wrap around",
        side, data, bytes));
  }
}

void check_ranges(const void* target, const void* source, std::size_t bytes) {
  check_range(target, bytes, "target");
  check_range(source, bytes, "source");
  const auto to = reinterpret_cast<std::uintptr_t>(target);
  const auto from = reinterpret_cast<std::uintptr_t>(source);
  if (std::max(to, from) - std::min(to, from) < bytes) {
    throw InvalidArgument(fmt::format(
        "target {} and source {} of a copy of {} B overlap; accepted: ranges that do not", target,
        source, bytes));
  }
}

void require_stream_of(const MemoryKind& to, const MemoryKind& from, StreamRef stream) {
  const DeviceContext* device = &stream.context();
  if (to.device == device || from.device == device) return;
  const DeviceContext* other = to.device != nullptr ? to.device : from.device;
  throw InvalidArgument(
      fmt::format("a stream of {} cannot copy memory of {}; accepted: a stream of a device on "
                  "either side",
                  stream.device().to_string(), other->device().to_string()));
}

}  // namespace

class Copier::Impl {
 public:
  Impl(const DeviceRegistry& registry, PinnedAllocator& pinned, CompletionQueue& completions,
       const CopierOptions& options)
      : registry_(registry),
        pinned_(pinned),
        completions_(completions),
        direct_(pinned, options.direct_piece_bytes),
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
  };

  Transfer start(void* target, const void* source, std::size_t bytes, Request request) {
    if (bytes == 0) return end(Transfer(), std::move(request));
    check_ranges(target, source, bytes);
    const StreamRef stream = request.stream;
    const Driver& driver = stream.context().driver();
    const ContextScope scope(stream.context());
    const CopySide to = side(target, driver);
    const CopySide from = side(const_cast<void*>(source), driver);  // nobody writes there
    const bool is_on_host = to.kind.is_host() && from.kind.is_host();
    const bool has_pageable = to.kind.type == Type::pageable || from.kind.type == Type::pageable;
    if (!is_on_host) require_stream_of(to.kind, from.kind, stream);
    const bool by_host = is_on_host || has_pageable;
    // Asked only where it matters: a small copy of pinned memory goes its way without.
    const bool is_captured = (by_host || request.wants_transfer || bytes > direct_.piece_bytes()) &&
                             is_capturing_in_scope(stream);
    // A graph would not do again what the host does itself, and has no end.
    if (is_captured && by_host) refuse_captured(stream, "given a copy by the host");
    if (is_captured && request.wants_end()) refuse_captured(stream, "given a transfer with an end");
    bytes_copied_ += bytes;
    if (is_on_host) {
      copy_host(to.data, from.data, bytes);
      return end(Transfer(), std::move(request));
    }
    if (has_pageable) return copy_pageable(to, from, bytes, std::move(request));
    ++copies_direct_;
    return copy_direct(to, from, bytes, std::move(request), is_captured);
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
    if (kind.device != &stream.context()) {
      throw InvalidArgument(
          fmt::format("cannot fill {} on a stream of {}; accepted: memory of that device", target,
                      stream.device().to_string()));
    }
    driver.memset_d8_async(reinterpret_cast<CUdeviceptr>(target), value, bytes, stream.native());
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
  CopySide side(void* data, const Driver& driver) {
    return {static_cast<std::byte*>(data), find_memory_kind(registry_, pinned_, driver, data)};
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
      if (kind.is_host()) return;
      throw InvalidArgument(
          fmt::format("{} is memory of {}; accepted without a stream: host memory", data,
                      kind.device->device().to_string()));
    }
  }

  Transfer copy_direct(const CopySide& to, const CopySide& from, std::size_t bytes, Request request,
                       bool is_captured = false) {
    const StreamRef stream = request.stream;
    std::shared_ptr<DirectTransfer> transfer;
    if (request.wants_transfer && !is_captured)
      transfer = std::make_shared<DirectTransfer>(bytes, direct_.piece_bytes());
    const auto mark_step = [&] {
      if (transfer == nullptr) return;
      EventLease mark = staged_.events(stream.context()).acquire();
      record_unasked(mark, stream);
      transfer->add_step(std::move(mark));
    };
    try {
      const auto cut = is_captured ? DirectCopies::Cut::no : DirectCopies::Cut::yes;
      direct_.submit(to, from, bytes, stream, cut, mark_step);
      return end(Transfer(std::move(transfer)), std::move(request));
    } catch (...) {
      settle(stream);  // a piece may be under way, and the caller's memory go
      throw;
    }
  }

  Transfer copy_pageable(const CopySide& to, const CopySide& from, std::size_t bytes,
                         Request request) {
    const bool is_to_device = from.kind.type == Type::pageable;
    if (is_to_device && bytes <= kSmallSourceBytes && !request.stream.is_per_thread_default()) {
      if (auto pinned = pinned_.try_allocate(bytes)) {
        ++copies_staged_;
        return copy_through(pinned.value(), to, from, bytes, std::move(request));
      }
    }
    using Direction = StagedRoute::Direction;
    StagedRoute route{.direction = is_to_device ? Direction::to_device : Direction::to_host,
                      .host = std::make_unique<LinearHost>(is_to_device ? from.data : to.data),
                      .device = std::make_unique<LinearDevice>(is_to_device ? to.data : from.data),
                      .bytes = bytes,
                      .is_read_at_once = is_to_device && request.reads_source_now,
                      .keep_alive = request.options.keep_alive};
    const HostWork::CopyPtr copy =
        staged_.start(request.stream, std::move(route), priority_of(request));
    if (copy == nullptr) {
      ++copies_by_driver_;
      return copy_direct(to, from, bytes, std::move(request));
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
  Transfer copy_through(const Allocation& pinned, const CopySide& to, const CopySide& from,
                        std::size_t bytes, Request request) {
    std::memcpy(pinned.data(), from.data, bytes);
    const CopySide staging{static_cast<std::byte*>(pinned.data()),
                           {Type::pinned, nullptr, pinned.data()}};
    return copy_direct(to, staging, bytes, std::move(request));
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

  DirectCopies direct_;
  StagedCopies staged_;
};

Copier::Copier(const DeviceRegistry& registry, PinnedAllocator& pinned,
               CompletionQueue& completions, CopierOptions options) {
  check(options);
  impl_ = std::make_unique<Impl>(registry, pinned, completions, options);
}

Copier::~Copier() {
  // A forked child has none of the threads, and cannot wait for what they were doing.
  if (!impl_->is_here()) static_cast<void>(impl_.release());
}

Transfer Copier::start(void* target, const void* source, std::size_t bytes, StreamRef stream,
                       TransferOptions options) {
  return impl_->start(target, source, bytes,
                      {.stream = stream, .wants_transfer = true, .options = std::move(options)});
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

CopyCounters Copier::counters() const {
  return impl_->counters();
}

}  // namespace berth
