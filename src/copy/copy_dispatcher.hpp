// SPDX-License-Identifier: Apache-2.0
// Chooses the path of a copy: a memcpy on the host, staging memory, or the driver alone.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "berth/copier_options.hpp"
#include "berth/copy_counters.hpp"
#include "berth/file.hpp"
#include "berth/pinned_allocator.hpp"
#include "berth/transfer.hpp"

#include "copy/copy_request.hpp"
#include "copy/direct/direct_submission.hpp"
#include "copy/direct/peer_links.hpp"
#include "copy/operand/copy_shape.hpp"
#include "copy/staged/bounce_memory.hpp"
#include "copy/staged/staged_copies.hpp"
#include "copy/staged/staged_transfer.hpp"

namespace berth {

class CompletionQueue;

/// All calls are made within a ContextScope of the request's stream. A copy of up to kSmallBytes
/// without a Transfer, on a created stream, works with any current context
/// (Copier::Impl::in_context).
/// Threads  Safe from any thread.
class CopyDispatcher {
 public:
  CopyDispatcher(const DeviceRegistry& registry, PinnedAllocator& pinned,
                 CompletionQueue& completions, const CopierOptions& options);

  /// Up to this size the calling thread copies pageable memory itself, which takes a few
  /// microseconds, less than waking another thread.
  static constexpr std::size_t kSmallBytes = BounceMemory::kPartBytesMax;

  /// The path to take if both are possible.
  enum class Preferred { direct, staged };

  /// Validates a copy that start() may submit later, and starts the thread that calls on_done.
  /// Errors  InvalidArgument, StreamCaptured: start() would throw for this copy on this stream.
  ///         As CompletionQueue::start_thread().
  void prepare(const CopyShape& shape, const CopyRequest& request) const;
  /// Chooses a path, and starts the copy.
  /// Errors  As Copier::start().
  Transfer start(const CopyShape& shape, CopyRequest request,
                 Preferred preferred = Preferred::direct);
  /// Within a ContextScope of the stream's device.
  /// Errors  As Copier::fill_async().
  void fill(const MemorySide& target, std::uint8_t value, std::size_t bytes, StreamRef stream);
  /// Between a range of a file and memory of a device; the range is not empty.
  /// Errors  Likewise.
  Transfer start(const FileRange& range, const MemorySide& device, CopyDirection direction,
                 CopyRequest request);
  /// Arranges on_done and keep_alive of a pending copy; a null transfer is complete.
  /// Errors  As CompletionQueue::when_done(): on_done will not be called.
  Transfer end(const std::shared_ptr<TransferState>& transfer, CopyRequest request);

  /// For marks behind copies on that device.
  [[nodiscard]] EventPool& events(DeviceContext& context) { return staged_.events(context); }

  /// Count copies made by other classes.
  void count_direct(std::size_t bytes) noexcept;
  void count_on_host(std::size_t bytes) noexcept;
  [[nodiscard]] CopyCounters counters() const;

 private:
  enum class Path { on_host, staged, direct };
  struct Route {
    Path path;
    bool is_captured;
  };
  struct Submission {
    std::size_t part_bytes;
    Batching batching;
    bool is_marked;
    bool is_borrowed = false;  ///< the device accesses the caller's pageable memory
  };

  [[nodiscard]] Route route_of(const CopyShape& shape, const CopyRequest& request,
                               Preferred preferred) const;
  Transfer copy_on_host(const CopyShape& shape, CopyRequest request);
  Transfer copy_staged(const CopyShape& shape, CopyRequest request);
  /// A small copy of pageable memory, by the calling thread.
  Transfer bounce_in(const BounceMemory::Part& part, const CopyShape& shape, CopyRequest request);
  void bounce_out(BounceMemory::Part& part, const CopyShape& shape, StreamRef stream);
  Transfer end_staged(const std::shared_ptr<StagedTransfer>& transfer, CopyRequest request);
  /// A copy of pageable memory by the driver.
  Transfer copy_by_driver(const CopyShape& shape, CopyRequest request);
  /// A copy without host work of berth's.
  Transfer copy_direct(const CopyShape& shape, CopyRequest request, bool is_captured);
  /// Submits the copies that `add` adds to the submission.
  template <class Add>
  Transfer submit(CopyRequest& request, const Submission& how, std::size_t bytes,
                  const DevicePair& devices, const Add& add);

  const DeviceRegistry& registry_;
  PinnedAllocator& pinned_;
  CompletionQueue& completions_;

  std::atomic<std::uint64_t> copies_direct_ = 0;
  std::atomic<std::uint64_t> copies_staged_ = 0;
  std::atomic<std::uint64_t> copies_by_driver_ = 0;
  std::atomic<std::uint64_t> copies_host_ = 0;
  std::atomic<std::uint64_t> bytes_copied_ = 0;

  const std::size_t part_bytes_;
  const bool must_pin_;    ///< if memory cannot be pinned, fail instead of copying by the driver
  const bool uses_words_;  ///< CopierOptions::gates
  const Batching batching_;
  PeerLinks links_;
  StagedCopies staged_;
  BounceMemory bounce_;  ///< its marks are events of staged_
};

}  // namespace berth
