// SPDX-License-Identifier: Apache-2.0
// OpenXLA's own plug-in for the CPU, which has as many devices as one asks for. It comes as the
// wheel xla-cpu-pjrt; BERTH_PJRT_WHEELS is the folder that it was installed into. Without it, no
// case runs.
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include <doctest/doctest.h>

#include "berth/bytes.hpp"
#include "berth/pjrt.hpp"

#include "backend/backend_fixture.hpp"
#include "support/errors.hpp"
#include "support/simulation.hpp"
#include "support/temporary_folder.hpp"

namespace xla_cpu_test {

using namespace berth;
using namespace berth::test;

namespace {

std::string xla_path() {
  const char* const wheels = std::getenv("BERTH_PJRT_WHEELS");
  return std::string(wheels == nullptr ? "" : wheels) + "/xla_plugins/xla_cpu_pjrt/xla_cpu_pjrt.so";
}

/// Two CUDA devices, and three of the plug-in.
struct XlaFixture {
  XlaFixture() {
    runtime().register_pjrt("xla", xla_path(), {{"cpu_device_count", std::int64_t{3}}});
  }
  [[nodiscard]] Runtime& runtime() { return *simulation.runtime; }
  [[nodiscard]] DeviceBuffers& buffers() { return runtime().buffers(); }
  [[nodiscard]] static Device device(int ordinal) {
    return Device::of(DeviceType::register_name("xla"), ordinal);
  }

  Simulation simulation{two_cuda_devices()};
};

}  // namespace

TEST_CASE("the plug-in's devices are counted and described") {
  XlaFixture fixture;
  const DeviceRegistry& devices = fixture.runtime().devices();
  const DeviceType type = fixture.device(0).type();
  CHECK(devices.count(type) == 3);
  CHECK(devices.backend_name(type).starts_with("PJRT cpu"));
  const std::vector<DeviceAttribute> facts = devices.backend_attributes(type);
  REQUIRE(facts.size() == 2);
  CHECK(std::get<std::string>(facts[0].value) == "0.81");
  CHECK(facts[1].name == "pjrt_extensions");
  CHECK(std::get<std::string>(facts[1].value) == "PhaseCompile FFI MemoryDescriptions Layouts");
  for (int ordinal = 0; ordinal < 3; ++ordinal) {
    const DeviceDescription description = devices.describe(fixture.device(ordinal));
    CHECK(description.kind == "cpu");
    CHECK_FALSE(description.name.empty());
    CHECK_FALSE(devices.device_memory(fixture.device(ordinal)).bytes_used.has_value());
  }
  CHECK(contains(message_of<NotSupported>([&] { return devices.memory_info(fixture.device(0)); }),
                 "does not report"));
}

TEST_CASE("bytes arrive in every pairing and size, whole and in part") {
  XlaFixture fixture;
  Runtime& runtime = fixture.runtime();
  const StreamLease stream = runtime.streams(Device::cuda(0)).acquire();
  for (const std::size_t bytes : {1ul, 2ul, 63ul, 64ul, 4096ul, 4097ul, 1ul << 20, 20000003ul}) {
    CAPTURE(bytes);
    const auto content = numbered_bytes(bytes, unsigned(bytes));
    const DeviceBuffer first = fixture.buffers().create(fixture.device(0), content.data(), bytes);
    const DeviceBuffer same = fixture.buffers().create(fixture.device(0), first);
    const DeviceBuffer other = fixture.buffers().create(fixture.device(2), same);
    const Allocation memory = runtime.memory(Device::cuda(0)).allocate(bytes, stream);
    fixture.buffers().copy(memory.data(), other, 0, bytes, stream);
    const DeviceBuffer back =
        fixture.buffers().create(fixture.device(1), memory.data(), bytes, stream);
    for (const DeviceBuffer* buffer : {&first, &same, &other, &back}) {
      CHECK(content_of(*buffer) == content);
      for (const auto& [offset, part] : {std::pair(bytes / 3, bytes - bytes / 3),
                                         std::pair(0ul, bytes / 2), std::pair(bytes - 1, 1ul)}) {
        std::vector<std::byte> target(part);
        buffer->read(target.data(), offset, part).wait();
        CHECK(std::equal(target.begin(), target.end(), content.begin() + std::ptrdiff_t(offset)));
      }
    }
  }
}

TEST_CASE("a file fills a buffer part by part") {
  XlaFixture fixture;
  const TemporaryFolder folder;
  const auto content = numbered_bytes(17_MiB + 11);
  const std::string path = (folder.path() / "content").string();
  write_content(path, content);
  const File file = File::open_to_read(path);
  const DeviceBuffer buffer =
      fixture.buffers().create(fixture.device(1), FileRange{file, 0, content.size()});
  CHECK(content_of(buffer) == content);
  buffer.ready().wait();
  CHECK(buffer.ready().bytes_done() == content.size());

  const DeviceBuffer cut =
      fixture.buffers().create(fixture.device(1), FileRange{file, 0, content.size()});
  cut.ready().cancel();
  try {
    cut.ready().wait();
  } catch (const Cancelled&) {  // unless it was over before
  }
}

TEST_CASE("a thousand buffers live at once on all devices") {
  XlaFixture fixture;
  std::vector<std::vector<std::byte>> contents;
  std::vector<DeviceBuffer> buffers;
  for (unsigned i = 0; i < 1000; ++i) {
    contents.push_back(numbered_bytes(1 + i * 37 % 70000, i));
    buffers.push_back(fixture.buffers().create(fixture.device(int(i % 3)), contents.back().data(),
                                               contents.back().size()));
  }
  int wrong = 0;
  for (unsigned i = 0; i < 1000; ++i) wrong += content_of(buffers[i]) == contents[i] ? 0 : 1;
  CHECK(wrong == 0);
}

TEST_CASE("threads create, copy and read buffers at once") {
  XlaFixture fixture;
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  std::atomic<int> calls = 0;
  for (unsigned seed = 0; seed < 4; ++seed) {
    threads.emplace_back([&, seed] {
      const auto content = numbered_bytes(100000 + seed, seed);
      for (int round = 0; round < 50; ++round) {
        const DeviceBuffer a = fixture.buffers().create(
            fixture.device(round % 3), content.data(), content.size(),
            {.on_done = [&](const std::exception_ptr& failure) { calls += failure == nullptr; }});
        const DeviceBuffer b = fixture.buffers().create(fixture.device((round + 1) % 3), a);
        if (content_of(b) != content) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
  fixture.simulation.runtime.reset();
  CHECK(calls == 200);
}

TEST_CASE("a buffer may be destroyed while it is filled, read and copied") {
  XlaFixture fixture;
  const auto content = numbered_bytes(8_MiB);
  for (int round = 0; round < 20; ++round) {
    std::vector<std::byte> target(8_MiB);
    Transfer read;
    DeviceBuffer copy;
    {
      const DeviceBuffer buffer =
          fixture.buffers().create(fixture.device(0), content.data(), content.size());
      read = buffer.read(target.data(), 0, target.size());
      copy = fixture.buffers().create(fixture.device(1), buffer);
    }
    read.wait();
    CHECK(target == content);
    CHECK(content_of(copy) == content);
  }
}

TEST_CASE("an option that the plug-in does not accept is an error") {
  const std::string message = message_of<Error>([&] {
    return open_pjrt({"", xla_path(), {{"cpu_device_count", std::string("many")}}});
  });
  CHECK(contains(message, "PJRT_Client_Create failed with "));
}

}  // namespace xla_cpu_test
