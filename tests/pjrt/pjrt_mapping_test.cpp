// SPDX-License-Identifier: Apache-2.0
// Host memory that a plug-in maps for its devices.
#include <atomic>
#include <chrono>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "pjrt/plugin_fixture.hpp"

namespace pjrt_mapping_test {

using namespace berth;
using namespace berth::test;
using namespace std::string_literals;

TEST_CASE("host memory is mapped until its owner ends, and transfers use it meanwhile") {
  PluginFixture fixture({{"late", true}});
  std::vector<std::byte> memory = numbered_bytes(4096, 1);
  const int before = plugin_objects_live(fixture.path);
  HostMapping mapping =
      fixture.buffers().map_host_memory(fixture.device(0), memory.data(), memory.size());
  CHECK(mapping.data() == memory.data());
  CHECK(mapping.bytes() == memory.size());
  CHECK(plugin_objects_live(fixture.path) == before + 1);
  {
    const DeviceBuffer buffer =
        fixture.buffers().create(fixture.device(1), memory.data(), memory.size());
    CHECK(content_of(buffer) == memory);
  }
  HostMapping moved = std::move(mapping);
  CHECK(!mapping);  // NOLINT(bugprone-use-after-move): defined to be empty
  CHECK(mapping.bytes() == 0);
  moved = {};
  CHECK(plugin_objects_live(fixture.path) == before);
}

TEST_CASE("mapped memory, or a part of it, cannot be mapped again") {
  PluginFixture fixture;
  std::vector<std::byte> memory(300);
  DeviceBuffers& buffers = fixture.buffers();
  const auto map = [&](std::size_t offset, std::size_t bytes) {
    return buffers.map_host_memory(fixture.device(0), memory.data() + offset, bytes);
  };
  const HostMapping middle = map(100, 100);
  struct Range {
    std::size_t offset;
    std::size_t bytes;
  };
  for (const Range& range :
       {Range{100, 100}, Range{50, 51}, Range{199, 2}, Range{0, 300}, Range{150, 1}}) {
    CAPTURE(range.offset);
    const std::string message =
        message_of<InvalidArgument>([&] { return map(range.offset, range.bytes); });
    CHECK(contains(message, "which are mapped for pjrt; accepted: memory that is not mapped"));
  }
  const HostMapping before = map(0, 100);
  const HostMapping behind = map(200, 100);
  CHECK(!map(0, 0));
  CHECK(!buffers.map_host_memory(fixture.device(0), nullptr, 0));
}

TEST_CASE("a mapping that ends waits for the transfers of its memory, and for no others") {
  for (const bool is_read : {false, true}) {
    CAPTURE(is_read);
    PluginFixture fixture(
        {{"holds", is_read ? "Buffer_ToHostBuffer"s : "Client_BufferFromHostBuffer"s}});
    const auto release = plugin_function<void()>(fixture.path, "berth_test_pjrt_release");
    std::vector<std::byte> memory = numbered_bytes(300);
    std::vector<std::byte> other = numbered_bytes(200, 2);
    DeviceBuffers& buffers = fixture.buffers();
    HostMapping unused = buffers.map_host_memory(fixture.device(0), memory.data(), 100);
    HostMapping first = buffers.map_host_memory(fixture.device(0), memory.data() + 100, 100);
    HostMapping second = buffers.map_host_memory(fixture.device(0), memory.data() + 200, 100);
    const int mapped = plugin_calls(fixture.path, "Client_DmaUnmap");
    // A read or a filling that uses both mappings, in part.
    const DeviceBuffer buffer =
        buffers.create(fixture.device(1), is_read ? other.data() : memory.data() + 150, 100);
    const Transfer read =
        is_read ? buffer.read(memory.data() + 150, 0, 100) : buffer.read(other.data(), 0, 100);
    unused = {};
    CHECK(plugin_calls(fixture.path, "Client_DmaUnmap") == mapped + 1);

    std::atomic<bool> is_ending = false;
    std::thread owner([&] {
      is_ending = true;
      first = {};
      second = {};
    });
    while (!is_ending) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    CHECK(plugin_calls(fixture.path, "Client_DmaUnmap") == mapped + 1);
    CHECK(contains(message_of<InvalidArgument>([&] {
                     return buffers.map_host_memory(fixture.device(0), memory.data() + 199, 1);
                   }),
                   "which are mapped for pjrt"));
    release();
    owner.join();
    CHECK(plugin_calls(fixture.path, "Client_DmaUnmap") == mapped + 3);
    read.wait();
    buffer.ready().wait();
  }
}

TEST_CASE("an operation that cannot start leaves mapped memory unused") {
  PluginFixture fixture({{"fail", "Client_BufferFromHostBuffer"s}});
  std::vector<std::byte> memory(100);
  const HostMapping mapping =
      fixture.buffers().map_host_memory(fixture.device(0), memory.data(), memory.size());
  message_of<BackendError>(
      [&] { return fixture.buffers().create(fixture.device(0), memory.data(), memory.size()); });
}  // the end of the mapping waits for nothing

TEST_CASE("a mapping left at the end of its Runtime is removed") {
  std::vector<std::byte> memory(100);
  std::optional<HostMapping> left;
  {
    PluginFixture fixture;
    left = fixture.buffers().map_host_memory(fixture.device(0), memory.data(), memory.size());
  }  // which checks that the plug-in has no object left
  CHECK(left->data() == memory.data());
  left.reset();
}

TEST_CASE("a plug-in without mapping support is refused, and nothing stays mapped") {
  std::vector<std::byte> memory(100);
  {
    PluginFixture old({}, "old");
    CHECK_THROWS_WITH_AS(
        static_cast<void>(old.buffers().map_host_memory(old.device(0), memory.data(), 100)),
        doctest::Contains("maps no host memory for pjrt; accepted: transfers of memory as it is"),
        NotSupported);
  }
  PluginFixture fixture({{"fail", std::string("Client_DmaMap")}, {"fail_code", std::int64_t{12}}});
  for (int attempt = 0; attempt < 2; ++attempt) {
    CHECK_THROWS_WITH_AS(
        static_cast<void>(fixture.buffers().map_host_memory(fixture.device(0), memory.data(), 100)),
        doctest::Contains("PJRT_Client_DmaMap failed with UNIMPLEMENTED (12)"), NotSupported);
  }
}

TEST_CASE("memory of a CUDA device and null are refused before the plug-in sees them") {
  PluginFixture fixture;
  const StreamLease stream = fixture.runtime().streams(Device::cuda(0)).acquire();
  const Allocation block = fixture.runtime().memory(Device::cuda(0)).allocate(100, stream);
  DeviceBuffers& buffers = fixture.buffers();
  const auto refusal = [&](void* data) {
    return message_of<InvalidArgument>(
        [&] { return buffers.map_host_memory(fixture.device(0), data, 100); });
  };
  CHECK(contains(refusal(block.data()), "is memory of cuda:0"));
  CHECK(contains(refusal(nullptr), "memory to map"));
  CHECK_THROWS_AS(static_cast<void>(buffers.map_host_memory(Device::cuda(0), &buffers, 1)),
                  InvalidArgument);
}

}  // namespace pjrt_mapping_test
