// SPDX-License-Identifier: Apache-2.0
// Plug-ins whose structs are longer or shorter than those that berth knows.
#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "berth/pjrt.hpp"

#include "pjrt/plugin_fixture.hpp"
#include "support/temporary_folder.hpp"

namespace pjrt_versions_test {

using namespace berth;
using namespace berth::test;
using namespace std::string_literals;

namespace {

int refused_sizes(const std::string& path) {
  return plugin_function<int()>(path, "berth_test_pjrt_refused_sizes")();
}

/// Uses every function that berth knows.
void use_all(PluginFixture& fixture) {
  const auto content = numbered_bytes(5000);
  const TemporaryFolder folder;
  const std::string path = (folder.path() / "content").string();
  write_content(path, content);
  const File file = File::open_to_read(path);
  DeviceBuffers& buffers = fixture.buffers();
  const DeviceBuffer buffer = buffers.create(fixture.device(0), content.data(), content.size());
  CHECK(content_of(buffer) == content);
  CHECK(content_of(buffers.create(fixture.device(1), buffer)) == content);
  CHECK(content_of(buffers.create(fixture.device(0), buffer)) == content);
  CHECK(content_of(buffers.create(fixture.device(1), FileRange{file, 0, 5000})) == content);
  std::vector<std::byte> part(100);
  buffer.read(part.data(), 50, part.size()).wait();
  CHECK(std::equal(part.begin(), part.end(), content.begin() + 50));
  CHECK(fixture.runtime().devices().device_memory(fixture.device(0)).bytes_used == 5000);
  CHECK(fixture.runtime().devices().describe(fixture.device(1)).name == "TestDevice(id=1)");
  fixture.runtime().register_backend("planned", open_pjrt_topology({"", fixture.path}, "test:4"));
}

}  // namespace

TEST_CASE("a plug-in with longer structs gets them, with zeros behind what berth knows") {
  for (const char* variant : {"newer", "newer_terse", "newer_than_told"}) {
    for (const bool is_late : {false, true}) {
      CAPTURE(variant);
      PluginFixture fixture({{"late", is_late}}, variant);
      use_all(fixture);
      std::vector<std::byte> memory(4096);
      CHECK(fixture.buffers().map_host_memory(fixture.device(0), memory.data(), memory.size()));
      // Once it is known, a size is given at once.
      const int refused = refused_sizes(fixture.path);
      CHECK(refused > 0);
      CHECK(content_of(fixture.buffers().create(fixture.device(0), "abc", 3)).size() == 3);
      CHECK(refused_sizes(fixture.path) == refused);
    }
  }
}

TEST_CASE("a plug-in that accepts only its shorter structs gets them") {
  PluginFixture fixture({}, "shorter");
  use_all(fixture);
  CHECK(fixture.runtime().devices().describe(fixture.device(0)).memory_bytes == std::nullopt);
  CHECK(refused_sizes(fixture.path) == 2);  // Client_Create and Device_MemoryStats
}

TEST_CASE(
    "an argument that is refused for another reason is passed once, at first twice if newer") {
  const auto calls_of_refusal = [](const char* variant) {
    const std::string path = plugin_path(variant);
    PluginFixture fixture(
        {{"fail", "Client_BufferFromHostBuffer"s}, {"fail_code", std::int64_t{3}}}, variant);
    std::vector<int> calls;
    for (int time = 0; time < 2; ++time) {
      const int before = plugin_calls(path, "Client_BufferFromHostBuffer");
      CHECK(contains(message_of<BackendError>(
                         [&] { return fixture.buffers().create(fixture.device(0), "abc", 3); }),
                     "INVALID_ARGUMENT (3): told to fail"));
      calls.push_back(plugin_calls(path, "Client_BufferFromHostBuffer") - before);
    }
    return calls;
  };
  CHECK(calls_of_refusal("current") == std::vector<int>{1, 1});
  CHECK(calls_of_refusal("newer_unused") == std::vector<int>{2, 1});
}

TEST_CASE("attributes may be longer than berth knows, and must not be shorter") {
  const auto opened = [](std::int64_t bytes) {
    return PluginFixture({{"attribute_bytes", bytes}})
        .runtime()
        .devices()
        .describe(PluginFixture::device(1))
        .attributes.size();
  };
  CHECK(opened(64) == 8);
  CHECK(opened(96) == 8);
  CHECK(opened(0) == 8);  // not said
  for (const std::int64_t bytes : {std::int64_t{8}, std::int64_t{1} << 20}) {
    const std::string message = message_of<BackendError>([&] { return opened(bytes); });
    CHECK(contains(message, "PJRT_DeviceDescription_Attributes gave an attribute with a struct"));
  }
}

TEST_CASE("a table or a version of a wrong size, or without the wait for events, is refused") {
  const auto refusal = [](const char* variant) {
    return message_of<NotSupported>([&] { return open_pjrt({"", plugin_path(variant)}); });
  };
  CHECK(
      contains(refusal("short_version"), "the table of functions has 984 B and its version 20 B"));
  CHECK(contains(refusal("long_table"), "accepted: at most 65536 B, and at least 24 B"));
  CHECK(contains(refusal("no_await"), "does not have PJRT_Event_Await"));
}

}  // namespace pjrt_versions_test
