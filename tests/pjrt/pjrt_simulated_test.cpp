// SPDX-License-Identifier: Apache-2.0
// Plug-ins whose devices are those of the simulated driver. Its race detector judges when berth
// says that host memory is no longer used; it watches only pinned memory. The test announces its
// own uses of that memory.
#include <algorithm>
#include <cstddef>
#include <exception>
#include <future>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "berth/bytes.hpp"

#include "pjrt/plugin_fixture.hpp"

namespace pjrt_simulated_test {

using namespace berth;
using namespace berth::test;
using namespace std::string_literals;

namespace {

/// Of which a copy takes longer than the calls that start it.
constexpr std::size_t kBytes = 1_MiB + 1;

struct SimulatedPlugin : PluginFixture {
  explicit SimulatedPlugin(const sim::Config& machine, std::vector<PjrtOption> options = {})
      : PluginFixture(with_devices(std::move(options)), "current", machine) {}

  static std::vector<PjrtOption> with_devices(std::vector<PjrtOption> options) {
    options.push_back({"devices", std::int64_t{4}});
    return options;
  }
  [[nodiscard]] sim::Simulator& simulator() { return simulation.simulator; }
  [[nodiscard]] Allocation pinned(std::size_t bytes = kBytes) {
    return runtime().pinned_memory().allocate(bytes);
  }
  /// This thread fills memory.
  void write(void* memory, const std::vector<std::byte>& content) {
    simulator().host_writes(memory, content.size());
    std::copy(content.begin(), content.end(), static_cast<std::byte*>(memory));
  }
  /// This thread reads memory.
  [[nodiscard]] std::vector<std::byte> read(const void* memory, std::size_t bytes) {
    simulator().host_reads(memory, bytes);
    const auto* const begin = static_cast<const std::byte*>(memory);
    return {begin, begin + bytes};
  }
  [[nodiscard]] DeviceBuffer create(int ordinal, const void* source, TransferOptions options = {}) {
    return buffers().create(device(ordinal), source, kBytes, std::move(options));
  }
};

/// `body(fixture)` with work in several orders: as early and as late as is legal, and in the time
/// that it takes.
template <class Body>
void in_orders(const std::vector<PjrtOption>& options, const Body& body) {
  for (const sim::Progress progress : {sim::Progress::random, sim::Progress::timed}) {
    for (std::uint64_t seed = 1; seed <= 5; ++seed) {
      CAPTURE(int(progress));
      CAPTURE(seed);
      SimulatedPlugin fixture(plugin_machine(progress, seed), options);
      body(fixture);
    }
  }
}

/// Of kBytes bytes.
const std::vector<std::byte>& content_of_round(unsigned round) {
  static std::map<unsigned, std::vector<std::byte>> contents;
  std::vector<std::byte>& content = contents[round];
  if (content.empty()) content = numbered_bytes(kBytes, round);
  return content;
}

}  // namespace

TEST_CASE("memory is no longer used when a transfer is over, by wait() and by is_done()") {
  for (const bool is_late : {false, true}) {
    in_orders({{"late", is_late}}, [](SimulatedPlugin& fixture) {
      const Allocation source = fixture.pinned();
      const Allocation target = fixture.pinned();
      for (unsigned round = 0; round < 4; ++round) {
        const auto& content = content_of_round(round);
        fixture.write(source.data(), content);
        const DeviceBuffer first = fixture.create(0, source.data());
        const DeviceBuffer second = fixture.buffers().create(fixture.device(1), first);
        const Transfer read = second.read(target.data(), 0, kBytes);
        if (round % 2 == 0) {
          first.ready().wait();
          fixture.write(source.data(), content_of_round(99));
          read.wait();
        } else {
          while (!first.ready().is_done()) std::this_thread::yield();
          fixture.write(source.data(), content_of_round(99));
          while (!read.is_done()) std::this_thread::yield();
        }
        CHECK(fixture.read(target.data(), kBytes) == content);
        const Transfer part = second.read(target.data(), 7, 100);
        part.wait();
        CHECK(fixture.read(target.data(), 100) ==
              std::vector<std::byte>(content.begin() + 7, content.begin() + 107));
        fixture.write(target.data(), content_of_round(99));
      }
      CHECK(fixture.simulator().calls("cuMemcpyPeerAsync") == 4);
    });
  }
}

TEST_CASE("a buffer and a transfer that are destroyed have waited for the use of memory") {
  in_orders({}, [](SimulatedPlugin& fixture) {
    const Allocation memory = fixture.pinned();
    for (unsigned round = 0; round < 4; ++round) {
      const auto& content = content_of_round(round);
      fixture.write(memory.data(), content);
      DeviceBuffer copy;
      {
        const DeviceBuffer buffer = fixture.create(2, memory.data());
        copy = fixture.buffers().create(fixture.device(3), buffer);
      }
      fixture.write(memory.data(), content_of_round(99));
      { const Transfer read = copy.read(memory.data(), 0, kBytes); }
      CHECK(fixture.read(memory.data(), kBytes) == content);
    }
  });
}

TEST_CASE("memory is no longer used when on_done is called and keep_alive is released") {
  in_orders({}, [](SimulatedPlugin& fixture) {
    const Allocation memory = fixture.pinned();
    for (unsigned round = 0; round < 4; ++round) {
      fixture.write(memory.data(), content_of_round(round));
      std::promise<void> is_done;
      std::promise<void> is_released;
      const auto use_again = [&](std::promise<void>& said) {
        fixture.write(memory.data(), content_of_round(99));
        said.set_value();
      };
      const std::shared_ptr<const void> owner(memory.data(),
                                              [&](const void*) { use_again(is_released); });
      DeviceBuffer buffer = fixture.create(
          0, memory.data(),
          {.keep_alive = owner, .on_done = [&](const std::exception_ptr&) { use_again(is_done); }});
      const_cast<std::shared_ptr<const void>&>(owner) = nullptr;
      buffer = {};
      is_done.get_future().wait();
      is_released.get_future().wait();
    }
  });
}

TEST_CASE("memory is no longer used when a scatter or a gather is over") {
  in_orders({{"late", true}}, [](SimulatedPlugin& fixture) {
    const auto& content = content_of_round(5);
    const Allocation memory = fixture.pinned();
    fixture.write(memory.data(), content);
    const std::vector<BufferShard> shards = {{fixture.device(0), 1},
                                             {fixture.device(1), kBytes / 2},
                                             {fixture.device(3), kBytes - kBytes / 2 - 1}};
    const std::vector<DeviceBuffer> parts =
        fixture.buffers().scatter(memory.data(), kBytes, shards);
    parts.front().ready().wait();
    fixture.write(memory.data(), content_of_round(99));
    fixture.buffers().gather(memory.data(), kBytes, parts).wait();
    CHECK(fixture.read(memory.data(), kBytes) == content);
  });
}

TEST_CASE("mapped memory is pinned: the driver copies it, and other memory is staged") {
  in_orders({}, [](SimulatedPlugin& fixture) {
    sim::Simulator& simulator = fixture.simulator();
    std::vector<std::byte> memory(kBytes);
    {
      const HostMapping mapping =
          fixture.buffers().map_host_memory(fixture.device(0), memory.data(), memory.size());
      CHECK(simulator.calls("cuMemHostRegister") >= 1);
      const std::uint64_t before = simulator.calls("cuMemHostAlloc");
      const auto& content = content_of_round(3);
      fixture.write(memory.data(), content);
      const DeviceBuffer buffer = fixture.create(1, memory.data());
      buffer.ready().wait();
      fixture.write(memory.data(), content_of_round(99));
      buffer.read(memory.data(), 0, kBytes).wait();
      CHECK(fixture.read(memory.data(), kBytes) == content);
      CHECK(simulator.calls("cuMemHostAlloc") == before);
    }
    const std::uint64_t before = simulator.calls("cuMemHostAlloc");
    const DeviceBuffer buffer = fixture.create(1, memory.data());
    CHECK(content_of(buffer) == memory);
    CHECK(simulator.calls("cuMemHostAlloc") == before + 1);
  });
}

TEST_CASE("pinned memory is mapped, too, and is copied by CUDA devices and the plug-in's") {
  in_orders({}, [&](SimulatedPlugin& fixture) {
    DeviceBuffers& buffers = fixture.buffers();
    const StreamLease stream = fixture.runtime().streams(Device::cuda(0)).acquire();
    const Allocation copy = fixture.runtime().memory(Device::cuda(0)).allocate(kBytes, stream);
    const Allocation block = fixture.pinned();
    const auto map = [&] {
      return buffers.map_host_memory(fixture.device(0), block.data(), kBytes);
    };
    {
      const HostMapping mapping = map();
      CHECK(contains(message_of<InvalidArgument>(map), "which are mapped for pjrt"));
      fixture.write(block.data(), content_of_round(1));
      const DeviceBuffer buffer = fixture.create(1, block.data());
      fixture.runtime().copier().copy_async(copy.data(), block.data(), kBytes, stream);
      buffer.ready().wait();
      stream->sync();
      fixture.write(block.data(), content_of_round(99));
      buffer.read(block.data(), 0, kBytes).wait();
      CHECK(fixture.read(block.data(), kBytes) == content_of_round(1));
      CHECK(content_of(buffers.create(fixture.device(2), copy.data(), kBytes, stream)) ==
            content_of_round(1));
    }
    CHECK(map());
  });
}

TEST_CASE("pinned memory that is freed stays mapped, for its next user and to the end") {
  in_orders({}, [&](SimulatedPlugin& fixture) {
    Allocation block = fixture.pinned();
    void* const address = block.data();
    const auto map = [&] {
      return fixture.buffers().map_host_memory(fixture.device(0), address, kBytes);
    };
    HostMapping mapping = map();
    const DeviceBuffer buffer = fixture.create(0, address);
    buffer.ready().wait();
    block = {};
    block = fixture.pinned();
    REQUIRE(block.data() == address);
    CHECK(contains(message_of<InvalidArgument>(map), "which are mapped for pjrt"));
    fixture.write(address, content_of_round(2));
    CHECK(content_of(fixture.create(3, address)) == content_of_round(2));
    mapping = {};
    mapping = map();
    block = {};
    CHECK(contains(message_of<InvalidArgument>(map), "is in free pinned memory"));
    fixture.simulation.runtime.reset();
    CHECK(mapping.data() == address);
  });
}

TEST_CASE("memory that is mapped is pinned for CUDA devices") {
  in_orders({}, [](SimulatedPlugin& fixture) {
    std::vector<std::byte> memory = content_of_round(1);
    const StreamLease stream = fixture.runtime().streams(Device::cuda(0)).acquire();
    const Allocation copy = fixture.runtime().memory(Device::cuda(0)).allocate(kBytes, stream);
    {
      const HostMapping mapping =
          fixture.buffers().map_host_memory(fixture.device(0), memory.data(), kBytes);
      fixture.runtime().copier().copy(copy.data(), memory.data(), kBytes, stream);
      fixture.write(memory.data(), content_of_round(99));
    }
    fixture.runtime().copier().copy(memory.data(), copy.data(), kBytes, stream);
    CHECK(memory == content_of_round(1));
  });
}

TEST_CASE("a mapping that ends while its memory is written has waited") {
  in_orders({{"callback", "never"s}}, [](SimulatedPlugin& fixture) {
    std::vector<std::byte> memory = content_of_round(1);
    std::vector<std::byte> other = content_of_round(2);
    Transfer read;
    {
      const HostMapping mapping =
          fixture.buffers().map_host_memory(fixture.device(0), memory.data(), kBytes);
      const DeviceBuffer buffer = fixture.create(1, other.data());
      read = buffer.read(memory.data(), 0, kBytes);
      fixture.simulator().run_all();
    }
    CHECK(memory == other);
    read.wait();
  });
}

TEST_CASE("a write to a source that is still read is found") {
  // The plug-in does not call back, so nothing has asked for the work meanwhile.
  SimulatedPlugin fixture(plugin_machine(sim::Progress::timed, 1), {{"callback", "never"s}});
  const Allocation memory = fixture.pinned();
  const DeviceBuffer buffer = fixture.create(0, memory.data());
  REQUIRE_FALSE(buffer.ready().is_done());
  fixture.simulator().host_writes(memory.data(), kBytes);
  fixture.simulator().run_all();
  buffer.ready().wait();
  const std::vector<std::string> findings = fixture.simulator().take_findings();
  REQUIRE(findings.size() == 1);
  CHECK_MESSAGE(findings.front().starts_with("race: "), findings.front());
}

TEST_CASE("a buffer is memory of its own device, and is freed once its copies are done") {
  in_orders({}, [](SimulatedPlugin& fixture) {
    sim::Simulator& simulator = fixture.simulator();
    const DeviceRegistry& devices = fixture.runtime().devices();
    const auto used = [&](int ordinal) {
      return *devices.device_memory(fixture.device(ordinal)).bytes_used;
    };
    const auto& content = content_of_round(1);
    CHECK(devices.device_memory(fixture.device(2)).bytes_limit == 80_GiB);
    const std::uint64_t before[] = {used(0), used(1), used(2)};
    DeviceBuffer source = fixture.create(2, content.data());
    CHECK(used(0) == before[0]);
    CHECK(used(2) >= before[2] + kBytes);
    const DeviceBuffer copy = fixture.buffers().create(fixture.device(1), source);
    source = {};
    CHECK(content_of(copy) == content);
    CHECK(used(1) >= before[1] + kBytes);
    simulator.run_all();
    CHECK(simulator.live().pool_allocations == 1);
  });
}

TEST_CASE("a device without memory refuses a buffer, and accepts it once there is room") {
  in_orders({}, [](SimulatedPlugin& fixture) {
    const auto& content = content_of_round(1);
    fixture.simulator().set_device_memory_limit(1, 3_MiB);
    const auto create = [&] { return fixture.create(1, content.data()); };
    {
      const DeviceBuffer first = create();
      CHECK(contains(message_of<OutOfMemory>(create), "RESOURCE_EXHAUSTED (8): cuMemAllocAsync"));
      CHECK(content_of(first) == content);
    }
    fixture.simulator().run_all();
    CHECK(content_of(create()) == content);
  });
}

}  // namespace pjrt_simulated_test
