// SPDX-License-Identifier: Apache-2.0
#include "host/host_blocks.hpp"

#include <array>
#include <cstddef>

#include <doctest/doctest.h>

#include "support/tapped_device.hpp"

namespace host_blocks_test {

using namespace berth;
using namespace berth::test;

TEST_CASE_FIXTURE(TappedDevice, "uses of a destroyed stream are no longer found by its handle") {
  const Stream gone = stream();
  const Stream other = stream();
  alignas(64) std::array<std::byte, 64> live{};
  alignas(64) std::array<std::byte, 64> freed{};
  HostBlocks blocks;
  blocks.add(live.data(), 64);
  blocks.add(freed.data(), 64);
  for (const StreamRef stream : {gone.ref(), other.ref()})
    static_cast<void>(blocks.add_use(live.data(), {stream, record(stream)}));
  const HostUses& uses = *blocks.find_uses(live.data());
  static_cast<void>(blocks.add_use(freed.data(), {gone, nullptr}));
  const auto [pending, of_freed] = blocks.defer(freed.data());
  HostUses marked = {{gone, record(gone)}, {gone, nullptr}};
  blocks.swap_uses(pending, marked);

  blocks.forget(gone);
  CHECK_FALSE(uses[0].stream.has_value());
  CHECK(uses[0].event != nullptr);
  CHECK(uses[1].stream == other.ref());
  const HostUses awaited = blocks.next_pending(0)->second;
  CHECK_FALSE(awaited[0].stream.has_value());
  CHECK(awaited[1].stream == gone.ref());  // nothing else tells when it is over
  CHECK(blocks.has_unmarked(gone));
  blocks.drop(gone);
  CHECK_FALSE(blocks.has_unmarked(gone));
}

}  // namespace host_blocks_test
