// SPDX-License-Identifier: Apache-2.0
// Copies that the device makes alone: memory on both sides that it can reach.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "berth/pinned_allocator.hpp"
#include "berth/stream.hpp"

#include "copy/memory_kind.hpp"

namespace berth {

/// One side of a copy.
struct CopySide {
  std::byte* data;
  MemoryKind kind;
};

/// Threads  Safe from any thread.
class DirectCopies {
 public:
  DirectCopies(PinnedAllocator& pinned, std::size_t piece_bytes)
      : pinned_(pinned), piece_bytes_(piece_bytes) {}

  [[nodiscard]] std::size_t piece_bytes() const { return piece_bytes_; }

  enum class Cut : bool { no, yes };  ///< into pieces; no: a captured stream gets one node

  /// Within a ContextScope of the stream's device. Calls after_piece() behind each piece. Pinned blocks
  /// of berth's are recorded as used by the stream, before anything is submitted.
  /// Errors  DriverError.
  template <class AfterPiece>
  void submit(const CopySide& to, const CopySide& from, std::size_t bytes, StreamRef stream,
              Cut cut, const AfterPiece& after_piece) {
    record_blocks(to, from, stream);
    const std::size_t piece = cut == Cut::yes ? piece_bytes_ : bytes;
    for (std::size_t offset = 0; offset < bytes; offset += piece) {
      submit_piece(to, from, offset, std::min(piece, bytes - offset), stream);
      after_piece();
    }
  }

 private:
  void record_blocks(const CopySide& to, const CopySide& from, StreamRef stream);
  static void submit_piece(const CopySide& to, const CopySide& from, std::size_t offset,
                           std::size_t bytes, StreamRef stream);

  PinnedAllocator& pinned_;
  const std::size_t piece_bytes_;
};

}  // namespace berth
