// SPDX-License-Identifier: Apache-2.0
// The overhead of berth above a plug-in, as calls of the plug-in and of the driver.
#include <algorithm>
#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "berth/bytes.hpp"

#include "pjrt/plugin_fixture.hpp"
#include "support/temporary_folder.hpp"

namespace pjrt_calls_test {

using namespace berth;
using namespace berth::test;

using Calls = std::map<std::string, int>;

/// The calls of the plug-in that `body` makes, by function.
template <class Body>
Calls calls_of(const PluginFixture& fixture, const Body& body) {
  Calls made;
  const char* const names[] = {"Client_BufferFromHostBuffer",
                               "Buffer_ReadyEvent",
                               "Buffer_ToHostBuffer",
                               "Buffer_CopyRawToHost",
                               "Buffer_CopyToDevice",
                               "Buffer_Destroy",
                               "Event_IsReady",
                               "Event_OnReady",
                               "Event_Await",
                               "Event_Destroy",
                               "Client_Create",
                               "Device_GetDescription"};
  for (const char* const name : names) made[name] -= plugin_calls(fixture.path, name);
  int others = -plugin_calls(fixture.path, nullptr);
  body();
  for (const char* const name : names) made[name] += plugin_calls(fixture.path, name);
  others += plugin_calls(fixture.path, nullptr);
  for (const auto& [name, calls] : made) others -= calls;
  if (others != 0) made["others"] = others;
  std::erase_if(made, [](const auto& entry) { return entry.second == 0; });
  return made;
}

TEST_CASE("a transfer makes only the calls that the plug-in needs") {
  PluginFixture fixture;
  for (const std::size_t bytes : {std::size_t{4096}, std::size_t{1 << 20}}) {
    CAPTURE(bytes);
    std::vector<std::byte> memory(bytes);
    const std::uint64_t driver_before = driver_calls(fixture.runtime());
    DeviceBuffer buffer;
    CHECK(calls_of(fixture,
                   [&] {
                     buffer = fixture.buffers().create(fixture.device(0), memory.data(), bytes);
                     buffer.ready().wait();
                   }) == Calls{{"Client_BufferFromHostBuffer", 1},
                               {"Buffer_ReadyEvent", 1},
                               {"Event_IsReady", 2},
                               {"Event_Await", 2},
                               {"Event_Destroy", 2}});
    CHECK(calls_of(fixture, [&] { buffer.read(memory.data(), 0, bytes).wait(); }) ==
          Calls{{"Buffer_ToHostBuffer", 1},
                {"Event_IsReady", 1},
                {"Event_Await", 1},
                {"Event_Destroy", 1}});
    CHECK(calls_of(fixture, [&] { buffer.read(memory.data(), 8, 100).wait(); }) ==
          Calls{{"Buffer_CopyRawToHost", 1},
                {"Event_IsReady", 1},
                {"Event_Await", 1},
                {"Event_Destroy", 1}});
    DeviceBuffer copy;
    CHECK(calls_of(fixture,
                   [&] {
                     copy = fixture.buffers().create(fixture.device(1), buffer);
                     copy.ready().wait();
                   }) == Calls{{"Buffer_CopyToDevice", 1},
                               {"Buffer_ReadyEvent", 1},
                               {"Event_IsReady", 1},
                               {"Event_Await", 1},
                               {"Event_Destroy", 1}});
    CHECK(calls_of(fixture, [&] { buffer = {}; }) == Calls{{"Buffer_Destroy", 1}});
    CHECK(driver_calls(fixture.runtime()) == driver_before);
  }
}

TEST_CASE("a plug-in that reads no parts is not asked for the whole buffer for each part") {
  const auto content = numbered_bytes(17_MiB);
  const TemporaryFolder folder;
  const std::string path = (folder.path() / "written").string();
  const auto reads = [&](const std::vector<PjrtOption>& options, const char* variant) {
    PluginFixture fixture(options, variant);
    const DeviceBuffer buffer =
        fixture.buffers().create(fixture.device(0), content.data(), content.size());
    const Calls calls = calls_of(fixture, [&] {
      const Transfer written = buffer.read(FileRange{File::open_to_write(path), 0, 16_MiB}, 5);
      written.wait();
      CHECK(written.bytes_done() == 16_MiB);
    });
    std::vector<std::byte> target(16_MiB);
    File::open_to_read(path).read(target, 0);
    CHECK(std::equal(target.begin(), target.end(), content.begin() + 5));
    return calls.at("Buffer_ToHostBuffer");
  };
  CHECK(reads({}, "old") == 1);
  CHECK(reads({{"no_raw_reads", true}}, "current") == 2);  // the first part tells
  const std::vector<PjrtOption> late = {{"late", true},
                                        {"fail_event", std::string("Buffer_CopyRawToHost")},
                                        {"fail_code", std::int64_t{12}}};
  CHECK(reads(late, "current") <= 3);  // one of the first two parts
}

TEST_CASE("listing devices calls neither the plug-in nor the driver") {
  PluginFixture fixture({{"devices", std::int64_t{8}}});
  const std::uint64_t driver_before = driver_calls(fixture.runtime());
  CHECK(calls_of(fixture, [&] {
          const DeviceRegistry& devices = fixture.runtime().devices();
          for (int index = 0; index < devices.count(fixture.device(0).type()); ++index)
            CHECK(devices.describe(fixture.device(index)).kind == "test device");
          for (int index = 0; index < devices.count(); ++index)
            CHECK_FALSE(devices.info(Device::cuda(index)).name.empty());
        }).empty());
  CHECK(driver_calls(fixture.runtime()) == driver_before);
}

}  // namespace pjrt_calls_test
