// SPDX-License-Identifier: Apache-2.0
#include "buffer/host_filling.hpp"

#include <algorithm>

namespace berth {

void HostFilling::copy_all() {
  for (const Shard& shard : shards_) {
    const std::size_t all = shard.source.size();
    for (std::size_t begin = 0; begin < all; begin += part_bytes()) {
      const Slot* const slot = wait_for_free();
      if (slot == nullptr) return;
      const std::span content = shard.source.subspan(begin, std::min(part_bytes(), all - begin));
      use_memory(*slot, content, [&](DeviceBackend::Done done) {
        shard.filling->write(begin, content, begin + content.size() == all, std::move(done));
      });
    }
  }
}

}  // namespace berth
