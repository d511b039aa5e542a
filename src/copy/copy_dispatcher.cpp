// SPDX-License-Identifier: Apache-2.0
#include "copy/copy_dispatcher.hpp"

#include <utility>

#include "berth/bytes.hpp"
#include "berth/completion_queue.hpp"

#include "base/check.hpp"
#include "copy/copy_arguments.hpp"
#include "copy/direct/direct_transfer.hpp"
#include "copy/file_copies.hpp"
#include "copy/transfer/transfer_end.hpp"
#include "copy/transfer/transfer_state.hpp"
#include "device/device_context.hpp"
#include "device/own_context.hpp"
#include "stream/capture.hpp"
#include "stream/wait.hpp"
#include "stream/wait_after_failure.hpp"

namespace berth {
namespace {

/// Whether the stream's device can access the pageable memory of the copy directly.
bool is_device_accessible(const CopyShape& shape, StreamRef stream) {
  return shape.has_pageable() && stream.context().host_reach().has_pageable;
}

/// Whether the stream can report its progress by a word.
bool can_write_words(StreamRef stream) {
  DeviceContext& context = stream.context();
  return context.driver().has(DriverCall::stream_write_value32) &&
         context.host_reach().has_memory_operations;
}

/// Returns when the stream's pending work has completed.
/// Errors  DriverError: the work has completed, or the device has failed.
void complete(StreamRef stream) {
  try {
    wait_for(stream);
  } catch (...) {
    wait_after_failure(stream);  // in case only the query has failed
    throw;
  }
}

}  // namespace

CopyDispatcher::CopyDispatcher(const DeviceRegistry& registry, PinnedAllocator& pinned,
                               CompletionQueue& completions, const CopierOptions& options)
    : registry_(registry),
      pinned_(pinned),
      completions_(completions),
      part_bytes_(options.direct_piece_bytes),
      must_pin_(options.staging_on_shortage == StagingShortage::grow),
      uses_words_(options.gates != CopyGates::off),
      batching_{options.batched_range_bytes_min},
      staged_(registry, pinned, options),
      bounce_(registry, pinned,
              [this](DeviceContext& context) -> EventPool& { return staged_.events(context); }) {}

void CopyDispatcher::prepare(const CopyShape& shape, const CopyRequest& request) const {
  static_cast<void>(route_of(shape, request, Preferred::direct));
}

CopyDispatcher::Route CopyDispatcher::route_of(const CopyShape& shape, const CopyRequest& request,
                                               Preferred preferred) const {
  const StreamRef stream = request.stream;
  if (shape.is_on_host())
    require_own_context(registry_, stream.context(), "given a copy");
  else
    require_stream_of(registry_, shape.to(), shape.from(), stream);
  if (shape.has_pageable() && !request.is_checked) shape.check_pageable();
  const bool by_host = shape.is_on_host() || shape.has_pageable();
  // Queried only if needed: a graph captures a small copy within a device like any other work.
  const bool is_captured =
      (by_host || shape.has_pinned() || request.returns_transfer || request.is_awaited ||
       shape.bytes() > part_bytes_ || stream.is_legacy_default()) &&
      is_capturing_in_scope(stream);
  if (is_captured && stream.is_legacy_default()) refuse_captured(stream, "given a copy");
  if (is_captured && request.is_awaited) refuse_captured(stream, "waited for");
  // A graph cannot repeat host work, and a captured copy has no completion to report.
  if (is_captured && by_host) refuse_captured(stream, "given a copy by the host");
  if (is_captured && request.has_end_action()) refuse_captured(stream, request.end_action_name());
  // Nothing fails for lack of a thread once the copy has been submitted.
  if (request.has_end_action()) completions_.start_thread(stream);
  if (is_captured) return {Path::direct, true};
  if (shape.is_on_host()) return {Path::on_host, false};
  // The device reads in stream order, so this is not possible if the source must be read before the
  // call returns.
  const bool is_read_at_once =
      shape.from().is_pageable() && !request.returns_transfer && !request.is_awaited;
  if (!is_read_at_once && is_device_accessible(shape, stream)) return {Path::direct, false};
  return {shape.has_pageable() || preferred == Preferred::staged ? Path::staged : Path::direct,
          false};
}

Transfer CopyDispatcher::start(const CopyShape& shape, CopyRequest request, Preferred preferred) {
  const Route route = route_of(shape, request, preferred);
  if (route.path == Path::direct) {
    Transfer transfer = copy_direct(shape, std::move(request), route.is_captured);
    ++(shape.has_pageable() ? copies_by_driver_ : copies_direct_);
    bytes_copied_ += shape.bytes();
    return transfer;
  }
  bytes_copied_ += shape.bytes();
  return route.path == Path::on_host ? copy_on_host(shape, std::move(request))
                                     : copy_staged(shape, std::move(request));
}

void CopyDispatcher::fill(const MemorySide& target, std::uint8_t value, std::size_t bytes,
                          StreamRef stream) {
  require_filled_by(target.kind, target.data, stream);
  if (stream.is_legacy_default() && is_capturing_in_scope(stream))
    refuse_captured(stream, "given a fill");
  stream.context().driver().memset_d8_async(reinterpret_cast<CUdeviceptr>(target.data), value,
                                            bytes, stream.native());
}

Transfer CopyDispatcher::start(const FileRange& range, const MemorySide& device,
                               CopyDirection direction, CopyRequest request) {
  const StreamRef stream = request.stream;
  check_file_copy(range, device, direction);
  require_stream_of(registry_, device.kind, {}, stream);
  if (is_capturing_in_scope(stream)) refuse_captured(stream, "given a copy of a file");
  if (request.has_end_action()) completions_.start_thread(stream);
  bytes_copied_ += range.bytes;
  const HostWork::CopyPtr copy =
      staged_.start(stream, file_route(range, device.data, direction, request.options.keep_alive),
                    request.priority());
  if (copy == nullptr) {
    ++copies_by_driver_;
    copy_file_by_driver(range, device.data, direction, stream);
    const Submission how{.part_bytes = range.bytes, .batching = kNoBatching, .is_marked = true};
    return submit(request, how, range.bytes, {},
                  [&](DirectSubmission& submission) { submission.end_part(range.bytes); });
  }
  ++copies_staged_;
  std::shared_ptr<StagedTransfer> transfer;
  try {
    transfer = file_transfer(range, staged_.disk_work(), copy);
  } catch (...) {
    staged_.disk_work().complete(copy);
    throw;
  }
  return end_staged(transfer, std::move(request));
}

Transfer CopyDispatcher::copy_on_host(const CopyShape& shape, CopyRequest request) {
  BERTH_CHECK(shape.is_on_host());
  ++copies_host_;
  std::shared_ptr<TransferState> transfer;
  if (request.returns_transfer) transfer = std::make_shared<HostTransfer>(shape.bytes());
  wait_for(request.stream);  // earlier work of the stream may access both sides
  shape.copy_on_host();
  return end(transfer, std::move(request));
}

Transfer CopyDispatcher::copy_staged(const CopyShape& shape, CopyRequest request) {
  BERTH_CHECK(shape.from().is_host() != shape.to().is_host());  // the host has one side
  const auto direction = shape.from().is_host() ? CopyDirection::to_device : CopyDirection::to_host;
  const bool is_to_device = direction == CopyDirection::to_device;
  const bool is_by_caller = is_to_device || !request.returns_transfer;
  if (is_by_caller && shape.bytes() <= kSmallBytes && !request.stream.is_per_thread_default()) {
    if (BounceMemory::Part part = bounce_.take(shape.bytes(), direction, request.stream)) {
      ++copies_staged_;
      if (is_to_device) return bounce_in(part, shape, std::move(request));
      bounce_out(part, shape, request.stream);
      return {};
    }
    // Staging memory would have to be pinned as well, and the call might wait for it.
    if (!must_pin_) return copy_by_driver(shape, std::move(request));
  }
  shape.record_blocks_before(pinned_, request.stream);
  StagedRoute route{.direction = direction,
                    .host = shape.host_side(direction),
                    .device = shape.device_side(direction),
                    .bytes = shape.bytes(),
                    .is_read_at_once = is_to_device && !request.returns_transfer,
                    .keep_alive = request.options.keep_alive};
  const HostWork::CopyPtr copy =
      staged_.start(request.stream, std::move(route), request.priority());
  if (copy == nullptr) return copy_by_driver(shape, std::move(request));
  ++copies_staged_;
  if (!request.returns_transfer) {
    staged_.complete_host_side(copy, direction);
    if (request.is_awaited) complete(request.stream);
    return {};
  }
  const bool is_borrowed = shape.has_pageable() && request.options.keep_alive == nullptr;
  const auto host_memory =
      is_borrowed ? StagedTransfer::HostMemory::borrowed : StagedTransfer::HostMemory::owned;
  std::shared_ptr<StagedTransfer> transfer;
  try {
    transfer = std::make_shared<StagedTransfer>(staged_.work(), copy, host_memory);
    shape.record_blocks_after(request.stream);
  } catch (...) {
    staged_.work().complete(copy);
    throw;
  }
  return end_staged(transfer, std::move(request));
}

Transfer CopyDispatcher::copy_by_driver(const CopyShape& shape, CopyRequest request) {
  ++copies_by_driver_;
  return copy_direct(shape, std::move(request), false);
}

Transfer CopyDispatcher::bounce_in(const BounceMemory::Part& part, const CopyShape& shape,
                                   CopyRequest request) {
  shape.host_side(CopyDirection::to_device)->read(part.data(), 0, shape.bytes());
  const auto device = shape.device_side(CopyDirection::to_device);
  const Submission how{part_bytes_, batching_, request.returns_transfer};
  return submit(request, how, shape.bytes(), {}, [&](DirectSubmission& submission) {
    device->submit_write(part.data(), 0, shape.bytes(), request.stream);
    submission.end_part(shape.bytes());
  });
}

void CopyDispatcher::bounce_out(BounceMemory::Part& part, const CopyShape& shape,
                                StreamRef stream) {
  const auto device = shape.device_side(CopyDirection::to_host);
  device->submit_read(part.data(), 0, shape.bytes(), stream);
  const bool is_complete = uses_words_ && can_write_words(stream) && part.completes_soon(stream);
  if (!is_complete) complete(stream);
  shape.host_side(CopyDirection::to_host)->write(part.data(), 0, shape.bytes());
  part.reuse(stream.context().driver());
}

Transfer CopyDispatcher::end_staged(const std::shared_ptr<StagedTransfer>& transfer,
                                    CopyRequest request) {
  request.options.keep_alive = nullptr;  // the copy has it
  return end(transfer, std::move(request));
}

// A captured copy is one node, without marks. A copy over a link is split, so that other copies can
// interleave; a copy within a device uses no link. Pageable memory is not copied in batches,
// because NVIDIA does not document when the driver reads it.
Transfer CopyDispatcher::copy_direct(const CopyShape& shape, CopyRequest request,
                                     bool is_captured) {
  const DevicePair devices(shape.to().device, shape.from().device);
  const bool is_cut = !is_captured && !devices.are_same();
  const Submission how{.part_bytes = is_cut ? part_bytes_ : ~std::size_t{0},
                       .batching = is_captured || shape.has_pageable() ? kNoBatching : batching_,
                       .is_marked = request.returns_transfer && !is_captured,
                       .is_borrowed = is_device_accessible(shape, request.stream) &&
                                      request.options.keep_alive == nullptr};
  // The caller may reuse pageable memory when the call returns.
  if (how.is_borrowed && !request.returns_transfer) request.is_awaited = true;
  if (devices.are_different()) {
    DeviceContext& user = request.stream.context();
    links_.open(user, &user == devices.to ? *devices.from : *devices.to);
  }
  const StreamRef stream = request.stream;
  if (shape.has_pageable()) make_host_progress(stream);
  if (is_captured)
    shape.keep_blocks_for_graph(pinned_, stream);
  else
    shape.record_blocks_before(pinned_, stream);
  return submit(request, how, shape.bytes(), devices, [&](DirectSubmission& submission) {
    shape.submit(submission);
    if (!is_captured) shape.record_blocks_after(stream);
  });
}

template <class Add>
Transfer CopyDispatcher::submit(CopyRequest& request, const Submission& how, std::size_t bytes,
                                const DevicePair& devices, const Add& add) {
  const StreamRef stream = request.stream;
  DirectSubmission submission(stream, devices, how.part_bytes, how.batching);
  std::shared_ptr<DirectTransfer> transfer;
  if (how.is_marked) {
    transfer = std::make_shared<DirectTransfer>(bytes, how.is_borrowed);
    submission.mark_for(*transfer, staged_.events(stream.context()));
  }
  const bool is_awaited = request.is_awaited;
  Transfer started;
  try {
    add(submission);
    started = end(transfer, std::move(request));
  } catch (...) {
    // Part of the copy may be pending, and the caller may free the memory.
    wait_after_failure(stream);
    throw;
  }
  if (is_awaited) complete(stream);
  return started;
}

Transfer CopyDispatcher::end(const std::shared_ptr<TransferState>& transfer, CopyRequest request) {
  if (request.is_part) request.options.keep_alive = nullptr;  // the whole has it
  return end_transfer(completions_, request.stream, transfer, std::move(request.options));
}

void CopyDispatcher::count_direct(std::size_t bytes) noexcept {
  ++copies_direct_;
  bytes_copied_ += bytes;
}

void CopyDispatcher::count_on_host(std::size_t bytes) noexcept {
  ++copies_host_;
  bytes_copied_ += bytes;
}

CopyCounters CopyDispatcher::counters() const {
  return {.copies_direct = copies_direct_,
          .copies_staged = copies_staged_,
          .copies_by_driver = copies_by_driver_,
          .copies_host = copies_host_,
          .bytes_copied = bytes_copied_,
          .staging_waits = staged_.waits(),
          .staging_bytes = staged_.bytes_in_use()};
}

}  // namespace berth
