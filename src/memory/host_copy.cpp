// SPDX-License-Identifier: Apache-2.0
#include "memory/host_copy.hpp"

#include <new>

#include "berth/bytes.hpp"
#include "berth/error.hpp"

#include "base/format.hpp"
#include "stream/capture.hpp"
#include "stream/unchecked.hpp"
#include "stream/wait_after_failure.hpp"

namespace berth {
namespace {

/// Submits copies and waits for them. If one fails, waits for those before it, because their memory
/// must not be freed before they are done.
template <class Submit>
void copy_and_wait(DeviceContext& context, const Submit& submit) {
  const RelaxedCapture relaxed(context.driver());
  const Stream stream(context, {});  // captured streams of the program may wait for the legacy one
  const ContextScope scope(context);
  try {
    submit(stream.ref().native());
    sync_unchecked(stream);
  } catch (...) {
    wait_after_failure(stream);
    throw;
  }
}

}  // namespace

void HostCopy::save(DeviceContext& context, const std::vector<MemoryRange>& ranges) {
  const Driver& driver = context.driver();
  std::vector<Piece> pieces;
  for (const MemoryRange& range : ranges) {
    if (!pieces.empty() &&
        pieces.back().range.address + pieces.back().range.bytes == range.address) {
      pieces.back().range.bytes += range.bytes;
    } else {
      pieces.push_back({range, nullptr});
    }
  }
  copy_and_wait(context, [&](CUstream stream) {
    for (Piece& piece : pieces) {
      const auto [address, bytes] = piece.range;
      piece.content.reset(new (std::nothrow) std::byte[bytes]);
      if (piece.content == nullptr) {
        throw OutOfMemory(format_text("host memory allocation failed for {} of {}",
                                      format_bytes(bytes), context.device().to_string()));
      }
      driver.memcpy_async(reinterpret_cast<CUdeviceptr>(piece.content.get()), CUdeviceptr{address},
                          bytes, stream);
    }
  });
  pieces_ = std::move(pieces);
}

void HostCopy::restore(DeviceContext& context) const {
  if (pieces_.empty()) return;
  const Driver& driver = context.driver();
  copy_and_wait(context, [&](CUstream stream) {
    for (const Piece& piece : pieces_) {
      driver.memcpy_async(CUdeviceptr{piece.range.address},
                          reinterpret_cast<CUdeviceptr>(piece.content.get()), piece.range.bytes,
                          stream);
    }
  });
}

}  // namespace berth
