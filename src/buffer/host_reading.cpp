// SPDX-License-Identifier: Apache-2.0
#include "buffer/host_reading.hpp"

#include <algorithm>

namespace berth {

void HostReading::copy_all() {
  for (const Shard& shard : shards_) {
    const std::size_t all = shard.target.size();
    for (std::size_t begin = 0; begin < all;) {
      const Slot* const slot = wait_for_free();
      if (slot == nullptr) return;
      // Some backends know only after the first parts that they do not read parts: the rest is one.
      const std::size_t bytes = backend().reads_parts() ? part_bytes() : all;
      const std::span target = shard.target.subspan(begin, std::min(bytes, all - begin));
      use_memory(*slot, target, [&](DeviceBackend::Done done) {
        backend().read(*shard.source, shard.offset + begin, target, std::move(done));
      });
      begin += target.size();
    }
  }
}

}  // namespace berth
