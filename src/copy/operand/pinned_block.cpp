// SPDX-License-Identifier: Apache-2.0
#include "copy/operand/pinned_block.hpp"

#include "berth/pinned_allocator.hpp"

#include "pinned/pinned_owners.hpp"
#include "stream/default_streams.hpp"

namespace berth {

void PinnedBlock::record_before(PinnedAllocator& own, StreamRef stream) const {
  if (data == nullptr) return;
  if (owner == nullptr) return own.record_stream(data, stream);
  refuse_per_thread_default(stream);
}

void PinnedBlock::keep_for_graph(PinnedAllocator& own, StreamRef stream) const {
  if (data == nullptr) return;
  if (owner == nullptr) return own.record_use(data, stream);
  record_pinned_use(*owner, data, stream);
}

void PinnedBlock::record_after(StreamRef stream) const {
  if (owner != nullptr) record_pinned_use(*owner, data, stream);
}

}  // namespace berth
