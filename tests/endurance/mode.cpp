// SPDX-License-Identifier: Apache-2.0
#include "endurance/mode.hpp"

#include <array>

#include "berth/bytes.hpp"

#include "endurance/worker.hpp"

namespace berth::endurance {

sim::Config Mode::config(std::uint64_t seed) const {
  sim::Config config;
  config.memory = {device_bytes()};
  config.granularity = granule_bytes;
  config.progress = progress;
  config.seed = seed;
  config.checks = checked;
  config.poison = false;  // nobody reads what nobody wrote
  return config;
}

DeviceAllocatorOptions Mode::options() const {
  DeviceAllocatorOptions options;
  options.virtual_memory = virtual_memory;
  options.cross_stream_reuse = cross_stream_reuse;
  if (virtual_memory) {
    options.granule_bytes = allocator_granule_bytes();
  } else {
    options.segment_bytes = 4 * granule_bytes;
  }
  if (relieved) {
    options.on_pressure = [](std::size_t bytes) {
      return running_worker != nullptr && running_worker->relieve(bytes);
    };
  }
  return options;
}

std::span<const Mode> modes() {
  using sim::Progress;
  static const std::array all = {
      Mode{.name = "checked-eager", .share = 1, .checked = true},
      Mode{.name = "checked-manual", .share = 1, .progress = Progress::manual, .checked = true},
      Mode{.name = "checked-random", .share = 1, .progress = Progress::random, .checked = true},
      Mode{.name = "checked-random-never",
           .share = 1,
           .cross_stream_reuse = CrossStreamReuse::never,
           .progress = Progress::random,
           .checked = true,
           .limited = true},
      Mode{.name = "checked-random-before-growth",
           .share = 1,
           .cross_stream_reuse = CrossStreamReuse::before_growth,
           .threads = 4,
           .progress = Progress::random,
           .checked = true,
           .limited = true},
      Mode{.name = "checked-random-guests",
           .share = 1,
           .progress = Progress::random,
           .checked = true,
           .relieved = true,
           .has_guests = true},
      Mode{.name = "checked-random-threads",
           .share = 2,
           .threads = 4,
           .progress = Progress::random,
           .checked = true},
      Mode{.name = "checked-random-segments-limit",
           .share = 1,
           .virtual_memory = false,
           .progress = Progress::random,
           .checked = true,
           .limited = true},
      Mode{.name = "checked-random-calm",
           .share = 1,
           .progress = Progress::random,
           .checked = true,
           .calm = true,
           .granule_bytes = 256_KiB,
           .granules_max = 12},
      Mode{.name = "checked-random-small-granules",
           .share = 1,
           .progress = Progress::random,
           .checked = true,
           .limited = true,
           .granule_bytes = 256_KiB,
           .granules_max = 12},
      Mode{.name = "eager", .share = 9},
      Mode{.name = "eager-limit", .share = 10, .limited = true},
      Mode{.name = "eager-threads-limit-never",
           .share = 2,
           .cross_stream_reuse = CrossStreamReuse::never,
           .threads = 4,
           .limited = true},
      Mode{.name = "eager-threads", .share = 8, .threads = 4},
      Mode{.name = "eager-threads-calm",
           .share = 8,
           .threads = 4,
           .calm = true,
           .sizes = 6,
           .granules_max = 1},
      Mode{.name = "eager-segments", .share = 12, .virtual_memory = false},
      Mode{.name = "eager-segments-threads-limit",
           .share = 6,
           .virtual_memory = false,
           .threads = 4,
           .limited = true},
      Mode{.name = "eager-small-granules",
           .share = 10,
           .granule_bytes = 256_KiB,
           .granules_max = 12},
      Mode{.name = "eager-large-granules", .share = 6, .limited = true, .granules_joined = 4},
      Mode{.name = "random", .share = 6, .progress = Progress::random},
      Mode{.name = "random-when-idle",
           .share = 2,
           .cross_stream_reuse = CrossStreamReuse::when_idle,
           .progress = Progress::random},
      Mode{.name = "random-turns",
           .share = 1,
           .cross_stream_reuse = CrossStreamReuse::before_growth,
           .threads = 2,
           .progress = Progress::random,
           .takes_turns = true},
      Mode{.name = "random-guests-threads-limit",
           .share = 1,
           .threads = 4,
           .progress = Progress::random,
           .limited = true,
           .relieved = true,
           .has_guests = true},
      Mode{.name = "random-threads-limit",
           .share = 4,
           .threads = 4,
           .progress = Progress::random,
           .limited = true},
      Mode{.name = "random-segments",
           .share = 4,
           .virtual_memory = false,
           .progress = Progress::random},
  };
  return all;
}

}  // namespace berth::endurance
