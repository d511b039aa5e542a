// SPDX-License-Identifier: Apache-2.0
// Plug-ins that lie, die or leak: typed errors, no crash, and an end of the Runtime.
#include <cstddef>
#include <fstream>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <doctest/doctest.h>

#include "berth/pjrt.hpp"

#include "pjrt/plugin_fixture.hpp"
#include "support/temporary_folder.hpp"

namespace pjrt_lies_test {

using namespace berth;
using namespace berth::test;
using namespace std::string_literals;

TEST_CASE("what is null or too large in a description is an error, and nothing is left") {
  for (const auto& each : {
           std::pair{"null devices", "Client_AddressableDevices gave null and a size of 2"},
           std::pair{"null device", "Client_AddressableDevices gave a list with a null element"},
           std::pair{"huge devices", "Client_AddressableDevices gave a size of 1099511627776"},
           std::pair{"null description", "success and gave no description of a device"},
           std::pair{"null device name", "DeviceDescription_ToString gave null and a size of 16"},
           std::pair{"null attributes", "DeviceDescription_Attributes gave null and a size of 6"},
           std::pair{"huge attributes", "DeviceDescription_Attributes gave a size of 1099"},
           std::pair{"null attribute name", "DeviceDescription_Attributes gave null and a size"},
           std::pair{"null attribute text", "DeviceDescription_Attributes gave null and a size"},
           std::pair{"null attribute list", "DeviceDescription_Attributes gave null and a size"},
           std::pair{"huge attribute list", "DeviceDescription_Attributes gave a size of 1099"},
           std::pair{"huge attribute name", "DeviceDescription_Attributes gave a size of 1099"},
           std::pair{"huge version", "Client_PlatformVersion gave a size of 1099511627776"},
       }) {
    const std::string lie = each.first;
    CAPTURE(lie);
    const std::string message = message_of<BackendError>([&] {
      PluginFixture fixture({{"lie", lie}});
    });
    CHECK_MESSAGE(contains(message, each.second), message);
    CHECK(plugin_objects_live(plugin_path("current")) == 0);
  }
}

TEST_CASE("extensions are named up to the one that cannot be right, and the devices can be used") {
  const auto attribute_of = [](const std::string& variant, std::string_view name) {
    PluginFixture fixture({}, variant);
    CHECK(content_of(fixture.buffers().create(fixture.device(0), "abc", 3)).size() == 3);
    const auto attributes =
        fixture.runtime().devices().backend_attributes(fixture.device(0).type());
    for (const DeviceAttribute& attribute : attributes)
      if (attribute.name == name) return std::get<std::string>(attribute.value);
    return "none"s;
  };
  CHECK(attribute_of("current", "pjrt_api_version") == "0.81");
  CHECK(attribute_of("newer", "pjrt_api_version") == "0.117");
  CHECK(attribute_of("newer", "pjrt_extensions") == "none");
  for (const char* const variant : {"current", "unaligned_extension", "wild_extension"}) {
    CAPTURE(std::string(variant));
    CHECK(attribute_of(variant, "pjrt_extensions") == "FFI type_99 Layouts");
  }
  CHECK(attribute_of("current", "pjrt_extensions_error") == "none");
  CHECK(attribute_of("wild_extension", "pjrt_extensions_error") ==
        "extension 3 is at 0x10, which is no memory");
  CHECK(attribute_of("short_extension", "pjrt_extensions") == "FFI type_99");
  CHECK(attribute_of("short_extension", "pjrt_extensions_error") ==
        "extension 2 has a struct of 16 B; accepted: at least 24 B");
  CHECK(
      attribute_of("endless_extensions", "pjrt_extensions").starts_with("FFI type_99 Layouts ty"));
  CHECK(attribute_of("endless_extensions", "pjrt_extensions_error") == "more than 256 extensions");
}

TEST_CASE("a topology that is null, or has a null description, is an error") {
  const std::string path = plugin_path("current");
  const auto refusal = [&](const char* option) {
    return message_of<BackendError>([&] {
      return open_pjrt_topology({"", path, {{option, true}}}, "test:4");
    });
  };
  CHECK(contains(refusal("gives_nothing"), "reported success and gave no topology"));
  CHECK(contains(refusal("null_description"), "gave a list with a null element"));
}

TEST_CASE("memory below zero is unknown, and a device without memory fills no file") {
  {
    PluginFixture fixture({{"lie", "negative memory"s}});
    const BackendMemory memory = fixture.runtime().devices().device_memory(fixture.device(0));
    CHECK_FALSE(memory.bytes_used.has_value());
    CHECK_FALSE(memory.bytes_limit.has_value());
  }
  PluginFixture fixture({{"lie", "null memory"s}});
  const TemporaryFolder folder;
  const std::string path = (folder.path() / "content").string();
  std::ofstream(path, std::ios::binary).write("content", 7);
  CHECK(contains(message_of<BackendError>([&] {
                   return fixture.buffers().create(fixture.device(0),
                                                   FileRange{File::open_to_read(path), 0, 7});
                 }),
                 "gave no memory of a device"));
}

TEST_CASE("a plug-in that dies at any call gives errors, and is freed") {
  const TemporaryFolder folder;
  const auto content = numbered_bytes(10000);
  const std::string path = (folder.path() / "content").string();
  write_content(path, content);
  const File file = File::open_to_read(path);
  const std::string plugin = plugin_path("current");
  bool has_died = true;
  int failures = 0;
  for (std::int64_t calls = 0; has_died; ++calls) {
    CAPTURE(calls);
    has_died = false;
    Simulation simulation;
    simulation.errors_expected = true;
    const auto attempt = [&](const auto& body) {
      try {
        body();
      } catch (const Error& error) {
        has_died = true;
        ++failures;
        const std::string message = error.what();
        CHECK_MESSAGE(contains(message, "the plug-in has died"), message);
      }
    };
    std::vector<std::byte> target(content.size());
    attempt([&] {
      simulation.runtime->register_pjrt("pjrt", plugin, {{"dies_after", calls}});
      DeviceBuffers& buffers = simulation.runtime->buffers();
      DeviceBuffer first;
      attempt([&] { first = buffers.create(PluginFixture::device(0), content.data(), 10000); });
      DeviceBuffer second;
      attempt([&] {
        second = buffers.create(PluginFixture::device(1), FileRange{file, 0, 10000});
        second.ready().wait();
      });
      for (const DeviceBuffer* const buffer : {&first, &second}) {
        if (!*buffer) continue;
        attempt([&] { buffer->ready().wait(); });
        attempt([&] { buffer->read(target.data(), 10, 100).wait(); });
        attempt([&] { buffer->read(target.data(), 0, 10000).wait(); });
        attempt([&] { buffers.create(PluginFixture::device(1), *buffer).ready().wait(); });
      }
      attempt([&] {
        const HostMapping mapping =
            buffers.map_host_memory(PluginFixture::device(0), target.data(), 100);
      });
      attempt([&] {
        static_cast<void>(simulation.runtime->devices().device_memory(PluginFixture::device(0)));
      });
    });
    simulation.runtime.reset();
    CHECK(plugin_objects_live(plugin) == 0);
  }
  CHECK(failures > 100);
}

TEST_CASE("memory that a plug-in leaks is full, and the Runtime ends") {
  const std::string path = plugin_path("current");
  const auto content = numbered_bytes(600);
  {
    Simulation simulation;
    simulation.runtime->register_pjrt("pjrt", path,
                                      {{"leaks", true}, {"memory_bytes", std::int64_t{1000}}});
    DeviceBuffers& buffers = simulation.runtime->buffers();
    { const DeviceBuffer lost = buffers.create(PluginFixture::device(0), content.data(), 600); }
    CHECK(buffers.counters(PluginFixture::device(0)).buffers_live == 0);
    CHECK(contains(message_of<OutOfMemory>([&] {
                     return buffers.create(PluginFixture::device(0), content.data(), 600);
                   }),
                   "RESOURCE_EXHAUSTED (8): no room for 600 bytes"));
    plugin_function<void()>(path, "berth_test_pjrt_free_leaked")();
    CHECK(content_of(buffers.create(PluginFixture::device(0), content.data(), 600)) == content);
  }
  CHECK(plugin_objects_live(path) == 1);
  plugin_function<void()>(path, "berth_test_pjrt_free_leaked")();
  CHECK(plugin_objects_live(path) == 0);
}

}  // namespace pjrt_lies_test
