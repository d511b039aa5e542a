// SPDX-License-Identifier: Apache-2.0
// Plug-ins of other versions, and plug-ins that fail or lie: typed errors, and nothing left over.
#include <cstddef>
#include <dlfcn.h>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "pjrt/plugin_fixture.hpp"
#include "support/temporary_folder.hpp"

namespace pjrt_errors_test {

using namespace berth;
using namespace berth::test;

namespace {

PjrtOption fail(const char* function) {
  return {"fail", std::string(function)};
}

}  // namespace

TEST_CASE("a library that is no plug-in, or of another version, is refused by name") {
  const auto refusal = [](const std::string& path) { return open_pjrt({"", path}); };
  CHECK(contains(message_of<InvalidArgument>([&] { return refusal("/nonexistent.so"); }),
                 "/nonexistent.so cannot be loaded as a PJRT plug-in: "));
  CHECK(contains(message_of<InvalidArgument>([&] { return refusal("/etc/passwd"); }),
                 "/etc/passwd cannot be loaded as a PJRT plug-in: "));
  CHECK(contains(message_of<InvalidArgument>([&] { return refusal(""); }),
                 "the path of a PJRT plug-in is empty"));
  CHECK(contains(message_of<InvalidArgument>([&] { return refusal("libm.so.6"); }),
                 "libm.so.6 is no PJRT plug-in; accepted: a library that exports GetPjrtApi"));
  CHECK(contains(message_of<NotSupported>([&] { return refusal(plugin_path("other_major")); }),
                 "has version 1.81 of the PJRT API; accepted: major version 0, minor version 57"));
  CHECK(contains(message_of<NotSupported>([&] { return refusal(plugin_path("too_old")); }),
                 "has version 0.56 of the PJRT API"));
  CHECK(contains(message_of<NotSupported>([&] {
                   Simulation simulation;
                   simulation.runtime->register_pjrt("cut", plugin_path("cut"));
                   return 0;
                 }),
                 "does not have PJRT_Device_GetDescription"));
  CHECK(plugin_objects_live(plugin_path("cut")) == 0);
}

TEST_CASE("a library that is refused is unloaded, unless it has been called or has a thread") {
  const auto is_loaded = [](const std::string& path) {
    void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_NOLOAD);
    if (library != nullptr) dlclose(library);
    return library != nullptr;
  };
  const auto is_loaded_after_refusal = [&](const std::string& variant,
                                           const std::vector<PjrtOption>& options = {}) {
    const std::string path = plugin_path(variant);
    CHECK_FALSE(is_loaded(path));
    message_of<Error>([&] { return open_pjrt({"", path, options}); });
    return is_loaded(path);
  };
  for (const std::string variant :
       {"none", "other_major", "too_old", "no_await", "short_version"}) {
    CAPTURE(variant);
    for (int time = 0; time < 2; ++time) CHECK_FALSE(is_loaded_after_refusal(variant));
  }
  CHECK(is_loaded_after_refusal("thread"));
  CHECK(is_loaded_after_refusal("refused", {fail("Client_Create")}));
  // The one that is in use stays, whoever opens it again.
  const std::string path = plugin_path("current");
  PluginFixture fixture;
  message_of<Error>([&] { return open_pjrt({"", path, {fail("Client_Create")}}); });
  CHECK(is_loaded(path));
}

TEST_CASE("an old plug-in serves partial reads and files without the newer functions") {
  PluginFixture fixture({}, "old");
  const auto content = numbered_bytes(10000);
  const DeviceBuffer buffer =
      fixture.buffers().create(fixture.device(1), content.data(), content.size());
  std::vector<std::byte> part(100);
  buffer.read(part.data(), 5000, 100).wait();
  CHECK(std::equal(part.begin(), part.end(), content.begin() + 5000));
  CHECK(content_of(buffer) == content);
}

TEST_CASE("a plug-in with a longer struct for a client gets one") {
  PluginFixture fixture({}, "newer");
  const auto content = numbered_bytes(100);
  CHECK(content_of(fixture.buffers().create(fixture.device(0), content.data(), 100)) == content);
}

TEST_CASE("an error names the plug-in, the function and the code with its text") {
  PluginFixture fixture({fail("Client_BufferFromHostBuffer"), {"fail_code", std::int64_t{10}}});
  try {
    static_cast<void>(fixture.buffers().create(fixture.device(0), "abc", 3));
    FAIL("nothing was thrown");
  } catch (const BackendError& error) {
    CHECK(error.code() == Errc::backend);
    CHECK(error.driver_code() == 10);
    CHECK(std::string(error.what()) ==
          fixture.path +
              ": PJRT_Client_BufferFromHostBuffer failed with ABORTED (10): told "
              "to fail\\x0ahere");
  }
}

TEST_CASE("codes map to the error types of berth") {
  const auto fixture_of = [](std::int64_t code) {
    return std::make_unique<PluginFixture>(
        std::vector<PjrtOption>{fail("Client_BufferFromHostBuffer"), {"fail_code", code}});
  };
  const auto create = [](PluginFixture& fixture) {
    return fixture.buffers().create(fixture.device(0), "abc", 3);
  };
  message_of<OutOfMemory>([&] { return create(*fixture_of(8)); });
  message_of<NotSupported>([&] { return create(*fixture_of(12)); });
  message_of<Cancelled>([&] { return create(*fixture_of(1)); });
  CHECK(contains(message_of<BackendError>([&] { return create(*fixture_of(77)); }),
                 "a code that berth does not know (77)"));
}

TEST_CASE("a full device refuses a buffer, and accepts it once there is room") {
  PluginFixture fixture({{"memory_bytes", std::int64_t{1000}}});
  const auto content = numbered_bytes(1000);
  {
    const DeviceBuffer all = fixture.buffers().create(fixture.device(0), content.data(), 1000);
    CHECK(contains(message_of<OutOfMemory>([&] {
                     return fixture.buffers().create(fixture.device(0), content.data(), 1);
                   }),
                   "RESOURCE_EXHAUSTED (8): no room for 1 bytes"));
    CHECK(fixture.buffers().create(fixture.device(1), all).bytes() == 1000);
  }
  CHECK(content_of(fixture.buffers().create(fixture.device(0), content.data(), 1000)) == content);
}

TEST_CASE("each failing function leaves nothing behind") {
  for (const char* function : {"Client_Create", "Client_AddressableDevices"}) {
    CAPTURE(function);
    CHECK(contains(message_of<BackendError>([&] {
                     return open_pjrt({"", plugin_path("current"), {fail(function)}});
                   }),
                   function));
    CHECK(plugin_objects_live(plugin_path("current")) == 0);
  }
  for (const bool is_late : {false, true}) {
    for (const char* function : {"Buffer_ReadyEvent", "Buffer_ToHostBuffer", "Buffer_CopyRawToHost",
                                 "Buffer_CopyToDevice"}) {
      CAPTURE(function);
      PluginFixture fixture({fail(function), {"late", is_late}});
      const auto content = numbered_bytes(1000);
      std::vector<std::byte> target(1000);
      CHECK(contains(message_of<BackendError>([&] {
                       const DeviceBuffer buffer =
                           fixture.buffers().create(fixture.device(0), content.data(), 1000);
                       buffer.read(target.data(), 1, 999).wait();
                       buffer.read(target.data(), 0, 1000).wait();
                       return fixture.buffers().create(fixture.device(1), buffer);
                     }),
                     function));
    }
  }
}

TEST_CASE("a failed event fails its transfer and those that depend on it") {
  for (const bool is_late : {false, true}) {
    PluginFixture fixture(
        {{"fail_event", std::string("Client_BufferFromHostBuffer")}, {"late", is_late}});
    const auto content = numbered_bytes(1000);
    std::vector<std::byte> target(1000);
    const DeviceBuffer buffer =
        fixture.buffers().create(fixture.device(0), content.data(), content.size());
    const Transfer read = buffer.read(target.data(), 0, 1000);
    const DeviceBuffer copy = fixture.buffers().create(fixture.device(1), buffer);
    for (const Transfer& failed : {buffer.ready(), read, copy.ready()}) {
      CHECK(contains(message_of<BackendError>([&] {
                       failed.wait();
                       return 0;
                     }),
                     "INTERNAL (13): told to fail"));
    }
  }
}

TEST_CASE("a plug-in that reports success without a result causes an error") {
  const auto told = [](const char* function) {
    return PjrtOption{"gives_nothing", std::string(function)};
  };
  CHECK(contains(message_of<BackendError>([&] {
                   return open_pjrt({"", plugin_path("current"), {told("Client_Create")}});
                 }),
                 "the plug-in reported success and gave no client"));
  CHECK(plugin_objects_live(plugin_path("current")) == 0);

  const auto content = numbered_bytes(1000);
  std::vector<std::byte> target(1000);
  for (const bool is_late : {false, true}) {
    const auto refusal = [&](const char* function) {
      PluginFixture fixture({told(function), {"late", is_late}});
      return message_of<BackendError>([&] {
        const DeviceBuffer buffer =
            fixture.buffers().create(fixture.device(0), content.data(), 1000);
        buffer.ready().wait();
        buffer.read(target.data(), 0, 1000).wait();
        buffer.read(target.data(), 1, 999).wait();
        return fixture.buffers().create(fixture.device(1), buffer);
      });
    };
    for (const char* const function : {"Client_BufferFromHostBuffer", "Buffer_CopyToDevice"}) {
      CAPTURE(function);
      CHECK(contains(refusal(function), "the plug-in reported success and gave no buffer"));
    }
    for (const char* const function :
         {"Buffer_ReadyEvent", "Buffer_ToHostBuffer", "Buffer_CopyRawToHost"}) {
      CAPTURE(function);
      CHECK(contains(refusal(function), "the plug-in gave no event"));
    }
  }

  const TemporaryFolder folder;
  const std::string path = (folder.path() / "content").string();
  std::ofstream(path, std::ios::binary).write("content", 7);
  const File file = File::open_to_read(path);
  for (const auto& [function, what] :
       {std::pair{"Client_CreateBuffersForAsyncHostToDevice", "transfer manager"},
        std::pair{"AsyncHostToDeviceTransferManager_RetrieveBuffer", "buffer"}}) {
    PluginFixture fixture({told(function)});
    CHECK(contains(message_of<BackendError>([&] {
                     return fixture.buffers().create(fixture.device(0), FileRange{file, 0, 7});
                   }),
                   std::string("the plug-in reported success and gave no ") + what));
  }
}

TEST_CASE("an exception of a plug-in becomes an error") {
  CHECK(contains(message_of<BackendError>([&] {
                   return open_pjrt({"", plugin_path("current"), {{"throws", true}}});
                 }),
                 "UNKNOWN (2): the plug-in threw \"an exception of the plug-in\""));
  CHECK(plugin_objects_live(plugin_path("current")) == 0);
}

TEST_CASE("two plug-ins for one name, and names of berth's own, are refused before any is loaded") {
  PluginFixture fixture;
  const auto refusal = [&](const char* type) {
    return message_of<InvalidArgument>([&] {
      fixture.runtime().register_pjrt(type, "/nonexistent.so");
      return 0;
    });
  };
  CHECK(contains(refusal("pjrt"), "device type pjrt has a backend (PJRT test 7.1, API 0.81)"));
  CHECK(contains(refusal("cpu"), "cpu is a device type of berth's own"));
  CHECK(contains(refusal("cuda"), "cuda is a device type of berth's own"));
}

TEST_CASE("a buffer that outlives its client is refused") {
  DeviceBuffer buffer;
  {
    PluginFixture fixture({{"late", true}});
    buffer = fixture.buffers().create(fixture.device(0), "abcd", 4);
  }
  char target[4];
  CHECK(contains(message_of<InvalidArgument>([&] { return buffer.read(target, 0, 4); }),
                 "after its Runtime was destroyed"));
}

}  // namespace pjrt_errors_test
