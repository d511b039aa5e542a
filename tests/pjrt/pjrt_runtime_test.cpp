// SPDX-License-Identifier: Apache-2.0
// PJRT plug-ins in a Runtime: by code, by text and by topology.
#include <algorithm>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include <doctest/doctest.h>

#include "berth/configuration.hpp"
#include "berth/pjrt.hpp"
#include "berth/statistics.hpp"

#include "pjrt/plugin_fixture.hpp"
#include "support/environment.hpp"

namespace pjrt_runtime_test {

using namespace berth;
using namespace berth::test;
using namespace std::string_literals;

namespace {

const DeviceAttribute& attribute(const DeviceDescription& description, std::string_view name) {
  for (const DeviceAttribute& each : description.attributes) {
    if (each.name == name) return each;
  }
  FAIL("no attribute ", name);
  return description.attributes.front();
}

}  // namespace

TEST_CASE("a plug-in's devices have their names, kinds, attributes and memory") {
  PluginFixture fixture(
      {{"devices", std::int64_t{3}}, {"memory_bytes", std::int64_t{1} << 20}, {"scale", 2.5f}});
  const DeviceRegistry& devices = fixture.runtime().devices();
  const DeviceType type = fixture.device(0).type();
  CHECK(devices.count(type) == 3);
  CHECK(devices.backend_name(type) == "PJRT test 7.1, API 0.81");
  const DeviceDescription description = devices.describe(fixture.device(2));
  CHECK(description.name == "TestDevice(id=2)");
  CHECK(description.kind == "test device");
  CHECK(description.memory_bytes == 1u << 20);
  CHECK(std::get<std::int64_t>(attribute(description, "id").value) == 2);
  CHECK(std::get<std::int64_t>(attribute(description, "process_index").value) == 0);
  CHECK(std::get<std::int64_t>(attribute(description, "local_hardware_id").value) == 102);
  CHECK(std::get<std::vector<std::int64_t>>(attribute(description, "coords").value) ==
        std::vector<std::int64_t>{2, 0, 0});
  CHECK(std::get<std::int64_t>(attribute(description, "num_cores").value) == 2);
  CHECK(std::get<double>(attribute(description, "scale").value) == 2.5);
  CHECK(std::get<bool>(attribute(description, "is_test").value));
  CHECK(std::get<std::string>(attribute(description, "vendor").value) == "berth");
  CHECK(description.attributes.size() == 8);  // the value of unknown type is left out
}

TEST_CASE("memory statistics are those that the plug-in reports") {
  PluginFixture fixture({{"memory_bytes", std::int64_t{1} << 20}});
  const auto content = numbered_bytes(1000);
  const DeviceBuffer buffer = fixture.buffers().create(fixture.device(0), content.data(), 1000);
  const BackendMemory memory = fixture.runtime().devices().device_memory(fixture.device(0));
  CHECK(memory.bytes_used == 1000);
  CHECK(memory.bytes_limit == 1u << 20);
  CHECK_FALSE(memory.allocations.has_value());
  CHECK_FALSE(memory.bytes_used_peak.has_value());
  CHECK(fixture.runtime().devices().memory_info(fixture.device(0)).bytes_free == (1u << 20) - 1000);
}

TEST_CASE("a plug-in without memory statistics reports none") {
  PluginFixture fixture({{"memory_stats", false}});
  const BackendMemory memory = fixture.runtime().devices().device_memory(fixture.device(0));
  CHECK_FALSE(memory.bytes_used.has_value());
  CHECK_FALSE(fixture.runtime().devices().describe(fixture.device(0)).memory_bytes.has_value());
}

TEST_CASE("statistics that fail leave the memory of the devices unknown, and say why") {
  constexpr std::int64_t kInternal = 13;
  PluginFixture fixture({{"fail", "Device_MemoryStats"s}, {"fail_code", kInternal}});
  const DeviceRegistry& devices = fixture.runtime().devices();
  const DeviceDescription description = devices.describe(fixture.device(1));
  CHECK_FALSE(description.memory_bytes.has_value());
  const std::string why = "PJRT_Device_MemoryStats failed with INTERNAL (13): told to fail";
  CHECK(contains(std::get<std::string>(attribute(description, "memory_stats_error").value), why));
  CHECK(contains(message_of<BackendError>([&] { return devices.device_memory(fixture.device(1)); }),
                 why));
  const auto content = numbered_bytes(1000);
  CHECK(content_of(fixture.buffers().create(fixture.device(1), content.data(), 1000)) == content);
  CHECK_FALSE(fixture.runtime().statistics().backend_devices[1].memory.bytes_used.has_value());
}

TEST_CASE("BERTH_CONF registers plug-ins with options") {
  const std::string path = plugin_path("current");
  const ScopedEnvironment conf(
      "BERTH_CONF", "pjrt=one:" + path + "?devices=1&late=true;four:" + path + "?devices=4");
  {
    Simulation simulation;
    const DeviceRegistry& devices = simulation.runtime->devices();
    CHECK(devices.count(*DeviceType::find("one")) == 1);
    CHECK(devices.count(*DeviceType::find("four")) == 4);
    CHECK(devices.backend_problem(*DeviceType::find("one")).empty());
  }
  CHECK(plugin_objects_live(path) == 0);
}

TEST_CASE("a plug-in in the options that cannot be loaded is reported for its type") {
  RuntimeOptions options;
  options.pjrt = {{"missing", "/nonexistent/plugin.so"}};
  Simulation simulation({}, options);
  const DeviceRegistry& devices = simulation.runtime->devices();
  const DeviceType type = *DeviceType::find("missing");
  CHECK(devices.count(type) == 0);
  CHECK(contains(devices.backend_problem(type), "/nonexistent/plugin.so cannot be loaded"));
  CHECK(simulation.reports.count(Severity::warning) == 1);
  CHECK(simulation.reports.mention("device type missing has no devices"));
  CHECK(contains(message_of<InvalidArgument>([&] { return devices.resolve(Device::of(type, 0)); }),
                 "/nonexistent/plugin.so"));
  simulation.runtime->register_pjrt("missing", plugin_path("current"));
  CHECK(devices.backend_problem(type).empty());
  CHECK(devices.is_available(type));
}

TEST_CASE("options that name a type twice, or one of berth's own, are refused") {
  const std::string path = plugin_path("current");
  for (const std::string& text : {"pjrt=a:"s + path + ";a:" + path, "pjrt=cuda:"s + path}) {
    CAPTURE(text);
    message_of<InvalidArgument>([&] { return Runtime(configure({}, text)).devices().count(); });
  }
  CHECK(plugin_objects_live(path) == 0);
}

TEST_CASE("plug-ins as text are read back unchanged") {
  for (const char* text : {"none", "tpu:libtpu.so", "a:/x/y.so;b:z.so",
                           "a:x?i=-3&f=2.5&t=true&n=false&s=word&q='7'&e="}) {
    CAPTURE(text);
    const RuntimeOptions options = configure({}, "pjrt="s + text);
    std::string written;
    for (const ConfigurationEntry& entry : describe(options)) {
      if (entry.key == "pjrt") written = entry.value;
    }
    CHECK(written == text);
  }
  const RuntimeOptions options = configure({}, "pjrt=a:x?i=-3&f=2.5&t=true&s=word&q='7'");
  REQUIRE(options.pjrt.size() == 1);
  const std::vector<PjrtOption>& values = options.pjrt[0].options;
  CHECK(std::get<std::int64_t>(values[0].value) == -3);
  CHECK(std::get<float>(values[1].value) == 2.5f);
  CHECK(std::get<bool>(values[2].value));
  CHECK(std::get<std::string>(values[3].value) == "word");
  CHECK(std::get<std::string>(values[4].value) == "7");
  for (const char* text : {"pjrt=", "pjrt=tpu", "pjrt=:x", "pjrt=a:", "pjrt=a:x;", "pjrt=a:x?",
                           "pjrt=a:x?y", "pjrt=a:x?=1"}) {
    CAPTURE(text);
    CHECK(contains(message_of<InvalidArgument>([&] { return configure({}, text); }),
                   "accepted: none, or TYPE:PATH"));
  }
}

TEST_CASE("the devices of a topology are described, and have no memory") {
  const std::string path = plugin_path("current");
  {
    Simulation simulation;
    Runtime& runtime = *simulation.runtime;
    runtime.register_backend("planned", open_pjrt_topology({"", path}, "test:4"));
    const DeviceType type = *DeviceType::find("planned");
    CHECK(runtime.devices().count(type) == 4);
    CHECK(runtime.devices().backend_name(type) == "PJRT test topology test:4, API 0.81");
    CHECK(runtime.devices().backend_attributes(type).size() == 2);
    CHECK(runtime.devices().backend_attributes(DeviceType::cpu()).empty());
    CHECK(runtime.devices().describe(Device::of(type, 3)).name == "TestDevice(id=3)");
    CHECK(contains(message_of<NotSupported>(
                       [&] { return runtime.buffers().create(Device::of(type, 0), "abc", 3); }),
                   "the devices of topology test:4 are descriptions"));
    CHECK(contains(message_of<BackendError>([&] {
                     return open_pjrt_topology({"", path}, "other");
                   }),
                   "INVALID_ARGUMENT (3): no topology other"));
  }
  CHECK(plugin_objects_live(path) == 0);
}

TEST_CASE("errors and descriptions name the variables that select devices of the vendor") {
  const auto refusal = [](const char* name) {
    Simulation simulation(two_cuda_devices());
    simulation.runtime->register_pjrt(name, plugin_path("current"));
    const DeviceRegistry& devices = simulation.runtime->devices();
    const DeviceType type = DeviceType::register_name(name);
    const std::vector<DeviceAttribute> known = devices.describe(Device::of(type, 0)).attributes;
    const bool is_attribute = std::ranges::any_of(
        known, [](const DeviceAttribute& each) { return each.name == "TPU_VISIBLE_CHIPS"; });
    CHECK(is_attribute == (type.name() == "my_tpu"));
    return message_of<InvalidArgument>([&] { return devices.resolve(Device::of(type, 7)); });
  };
  setenv("TPU_VISIBLE_CHIPS", "0,1", 1);
  CHECK(refusal("my_tpu") ==
        "my_tpu:7: no such device: there are my_tpu:0 to my_tpu:1; TPU_VISIBLE_CHIPS=\"0,1\"");
  CHECK(refusal("other") == "other:7: no such device: there are other:0 to other:1");
  const auto open = [](const char* type, std::int64_t code) {
    Simulation().runtime->register_pjrt(type, plugin_path("current"),
                                        {{"fail", "Client_Create"s}, {"fail_code", code}});
  };
  constexpr const char* kReason = "told to fail\\x0ahere; TPU_VISIBLE_CHIPS=\"0,1\"";
  CHECK(contains(message_of<BackendError>([&] { open("my_tpu", 13); }), kReason));
  CHECK(contains(message_of<OutOfMemory>([&] { open("my_tpu", 8); }), kReason));
  CHECK(contains(message_of<NotSupported>([&] { open("my_tpu", 12); }), kReason));
  CHECK(contains(message_of<Cancelled>([&] { open("my_tpu", 1); }), kReason));
  for (const std::int64_t code : {5, 8, 12}) {
    int kept_code = 0;
    try {
      open("my_tpu", code);
    } catch (const Error& error) {
      kept_code = error.driver_code();
    }
    CHECK(kept_code == code);
  }
  CHECK_FALSE(contains(message_of<BackendError>([&] { open("other", 13); }), "TPU_VISIBLE_CHIPS"));
  // What the plug-in has not refused does not depend on them.
  CHECK_FALSE(contains(message_of<NotSupported>([] {
                         Simulation().runtime->register_pjrt("my_tpu", plugin_path("too_old"));
                       }),
                       "TPU_VISIBLE_CHIPS"));
  unsetenv("TPU_VISIBLE_CHIPS");
  CHECK(refusal("other") == "other:7: no such device: there are other:0 to other:1");
}

}  // namespace pjrt_runtime_test
