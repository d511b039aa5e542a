// SPDX-License-Identifier: Apache-2.0
// A backend may call `done` under a lock that its functions take, too.
#include "support/locking_backend.hpp"

#include <cstddef>
#include <memory>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "berth/bytes.hpp"
#include "berth/device_buffer.hpp"
#include "berth/error.hpp"

#include "backend/backend_fixture.hpp"
#include "support/temporary_folder.hpp"

namespace locking_backend_test {

using namespace berth;
using namespace berth::test;

TEST_CASE("a backend with one lock can report each end under it") {
  BackendFixture fixture;
  FakeMachine& machine = *fixture.machine;
  const auto lock = std::make_shared<LockingBackend::Lock>();
  fixture.runtime().register_backend(
      "locking",
      std::make_unique<LockingBackend>(std::make_unique<FakeBackend>(fixture.machine), lock));
  machine.can_map = true;
  machine.is_late = true;
  const std::jthread device([&](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      if (!machine.run_next()) std::this_thread::yield();
    }
  });
  constexpr std::size_t kBytes = 17_MiB;  // five parts of a file
  const auto content = numbered_bytes(kBytes);
  const TemporaryFolder folder;
  const std::string source_path = (folder.path() / "source").string();
  const std::string target_path = (folder.path() / "target").string();
  write_content(source_path, content);
  DeviceBuffers& buffers = fixture.buffers();
  const DeviceType type = DeviceType::register_name("locking");
  const Device devices[] = {Device::of(type, 0), Device::of(type, 1)};
  const TransferOptions in_parts{.part_bytes = 1_MiB};
  for (int round = 0; round < 3; ++round) {
    std::vector<std::byte> target(kBytes);
    {
      const HostMapping mapped = buffers.map_host_memory(devices[0], target.data(), kBytes);
      const DeviceBuffer of_file =
          buffers.create(devices[0], FileRange{File::open_to_read(source_path), 0, kBytes});
      const DeviceBuffer copied = buffers.create(devices[1], of_file);
      of_file.read(FileRange{File::open_to_write(target_path), 0, kBytes}, 0).wait();
      CHECK(are_equal(content_of_file(target_path), content));
      copied.read(target.data(), 0, kBytes, in_parts).wait();
      CHECK(are_equal(target, content));
    }
    const BufferShard shards[] = {{devices[0], 8_MiB}, {devices[1], kBytes - 8_MiB}};
    const std::vector<DeviceBuffer> scattered =
        buffers.scatter(content.data(), kBytes, shards, in_parts);
    target.assign(kBytes, std::byte{0});
    buffers.gather(target.data(), kBytes, scattered, in_parts).wait();
    CHECK(are_equal(target, content));
    Transfer cancelled = scattered[0].read(target.data(), 0, 8_MiB, in_parts);
    cancelled.cancel();
    try {
      cancelled.wait();
    } catch (const Cancelled&) {  // unless the last part had begun
    }
    const DeviceBuffer dropped = buffers.create(devices[1], content.data(), kBytes, in_parts);
  }
  buffers.trim();
  CHECK(lock->calls_from_done == 0);
  while (machine.buffers_live > 0 || machine.pending_count() > 0) std::this_thread::yield();
}

}  // namespace locking_backend_test
