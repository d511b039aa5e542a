// SPDX-License-Identifier: Apache-2.0
// Copies with attributes, alone or in batches: their sources may be read out of stream order. The
// copies of one call are unordered among each other, and the call as a whole is in stream order.
// Source: CUDA Driver API, cuMemcpyBatchAsync.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <vector>

#include "base/mutex.hpp"
#include "sim/work/copies.hpp"

namespace berth::sim {

/// When a source may be read, and what else is asked of a copy. Location hints are ignored, because
/// a simulated copy always knows the location of its memory.
struct CopyAttributes {
  CUmemcpySrcAccessOrder order;
  unsigned flags;

  [[nodiscard]] bool are_valid() const;
};

/// The copies of one call, in the order of their addition.
class AttributedCopies {
 public:
  /// `stream` is the argument of the caller. Later functions may be called if status() is
  /// CUDA_SUCCESS. May release the lock to wait.
  AttributedCopies(Call& call, CUstream stream) BERTH_REQUIRES(mutex);

  /// CUDA_SUCCESS, or the reason why the stream takes no copies with attributes.
  [[nodiscard]] CUresult status() const { return status_; }

  /// Adds a copy that is not empty. CUDA_ERROR_INVALID_VALUE if it cannot be made.
  CUresult add(const CopyWork& work, const CopyAttributes& attributes) BERTH_REQUIRES(mutex);

  /// Queues the copies, at least one, and returns when the sources that are read during the call
  /// have been read. May release the lock to wait. Called once.
  CUresult submit() BERTH_REQUIRES(mutex);

 private:
  struct Copy {
    KnownCopy known;
    CUmemcpySrcAccessOrder order;
  };
  struct Waits;

  /// Allocates the buffers of sources that may be read out of order. False if the system is out of
  /// memory.
  bool make_buffers();
  Waits queue() BERTH_REQUIRES(mutex);

  Call& call_;
  Stream* stream_ = nullptr;
  CUresult status_;
  std::vector<Copy> copies_;
};

}  // namespace berth::sim
