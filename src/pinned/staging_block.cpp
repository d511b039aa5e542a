// SPDX-License-Identifier: Apache-2.0
#include "pinned/staging_block.hpp"

#include "pinned/pinned_heaps.hpp"

namespace berth {

void StagingDeleter::operator()(std::byte* data) const noexcept {
  owner->heaps_->deallocate(data);
}

StagingBlock allocate_staging(PinnedAllocator& pinned, std::size_t bytes,
                              const PinnedOptions& options) {
  return {static_cast<std::byte*>(pinned.allocate_raw(bytes, options)), StagingDeleter{&pinned}};
}

}  // namespace berth
