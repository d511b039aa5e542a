// SPDX-License-Identifier: Apache-2.0
// Plug-ins that call back twice, late, never, or though they have refused to.
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <exception>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "pjrt/plugin_fixture.hpp"
#include "support/temporary_folder.hpp"

namespace pjrt_callbacks_test {

using namespace berth;
using namespace berth::test;
using namespace std::string_literals;

TEST_CASE("a plug-in that calls back twice ends an operation once, and starts no other one") {
  PluginFixture fixture({{"late", true}, {"callback", "twice"s}}, "twice");
  const auto content = numbered_bytes(1000);
  std::atomic<int> calls = 0;
  std::string refusal;
  // The second call may come later than the first one, which ends the operation.
  while (refusal.empty()) {
    try {
      const DeviceBuffer buffer =
          fixture.buffers().create(fixture.device(0), content.data(), content.size(),
                                   {.on_done = [&](const std::exception_ptr&) { ++calls; }});
      buffer.ready().wait();
    } catch (const BackendError& error) {
      refusal = error.what();
    }
  }
  CHECK(contains(refusal, "has called back twice for one event"));
  const auto created = fixture.buffers().counters(fixture.device(0)).buffers_created;
  fixture.simulation.runtime.reset();
  CHECK(created > 0);
  CHECK(calls == int(created));
}

TEST_CASE("a plug-in that refuses to call back, and does it all the same, can be used further") {
  PluginFixture fixture({{"late", true}, {"callback", "and refuses"s}}, "untrue");
  const auto content = numbered_bytes(100'000);
  // The callback of an operation may come after its end.
  for (int count = 0; count < 100; ++count) {
    const DeviceBuffer buffer =
        fixture.buffers().create(fixture.device(0), content.data(), content.size());
    buffer.ready().wait();
  }
}

TEST_CASE("a callback for nothing is no second callback of any plug-in") {
  PluginFixture fixture({{"holds_source", true}, {"callback", "of nothing"s}});
  const auto release = plugin_function<void()>(fixture.path, "berth_test_pjrt_release");
  const auto content = numbered_bytes(1000);
  for (int count = 0; count < 2; ++count) {
    const DeviceBuffer buffer =
        fixture.buffers().create(fixture.device(0), content.data(), content.size());
    release();
    buffer.ready().wait();
  }
}

TEST_CASE("callbacks that come long after their refusal are not taken for second ones") {
  const std::string path = plugin_path("untrue");
  const auto call_back = plugin_function<void()>(path, "berth_test_pjrt_call_back");
  const auto content = numbered_bytes(1000);
  PluginFixture fixture({{"late", true}, {"callback", "after a refusal"s}}, "untrue");
  const int calls = plugin_calls(path, "Event_OnReady");
  while (plugin_calls(path, "Event_OnReady") - calls < 5000)
    fixture.buffers().create(fixture.device(0), content.data(), content.size()).ready().wait();
  call_back();
  fixture.buffers().create(fixture.device(0), content.data(), content.size()).ready().wait();
  call_back();
}

TEST_CASE("a callback that comes after a question has ended its operation ends nothing") {
  const auto call_back =
      plugin_function<void()>(plugin_path("untrue"), "berth_test_pjrt_call_back");
  const auto release = plugin_function<void()>(plugin_path("untrue"), "berth_test_pjrt_release");
  const auto content = numbered_bytes(1000);
  for (int client = 0; client < 2; ++client) {
    PluginFixture fixture({{"holds_source", true}, {"callback", "after the end"s}}, "untrue");
    std::atomic<int> calls = 0;
    for (int count = 0; count < 2; ++count) {
      if (count > 0) call_back();
      const DeviceBuffer buffer =
          fixture.buffers().create(fixture.device(0), content.data(), content.size(),
                                   {.on_done = [&](const std::exception_ptr&) { ++calls; }});
      CHECK_FALSE(buffer.ready().is_done());
      release();
      buffer.ready().wait();
    }
    fixture.simulation.runtime.reset();
    CHECK(calls == 2);
    call_back();  // after the end of the client
  }
}

TEST_CASE("an event is not destroyed before the plug-in has agreed to call back") {
  PluginFixture fixture({{"holds_source", true}, {"callback", "slow"s}});
  const auto content = numbered_bytes(1000);
  const int calls = plugin_calls(fixture.path, "Event_OnReady");
  std::thread owner([&] {
    fixture.buffers().create(fixture.device(0), content.data(), content.size()).ready().wait();
  });
  while (plugin_calls(fixture.path, "Event_OnReady") == calls) std::this_thread::yield();
  plugin_function<void()>(fixture.path, "berth_test_pjrt_release")();
  owner.join();
  CHECK(plugin_function<int()>(fixture.path, "berth_test_pjrt_events_destroyed_in_calls")() == 0);
}

TEST_CASE("a callback calls nothing of its plug-in but what frees its event") {
  const std::string path = plugin_path("current");
  const auto calls = plugin_function<int()>(path, "berth_test_pjrt_calls_in_callbacks");
  const auto release = plugin_function<void()>(path, "berth_test_pjrt_release");
  const auto content = numbered_bytes(5000);
  // A late read of a part, which succeeds, fails, or is not implemented, with and without its
  // buffer.
  for (const std::int64_t code : {0, 12, 13}) {
    for (const bool has_buffer : {false, true}) {
      CAPTURE(code);
      CAPTURE(has_buffer);
      PluginFixture fixture({{"callback", "alone"s},
                             {"holds", "Buffer_CopyRawToHost"s},
                             {"fail_event", code == 0 ? ""s : "Buffer_CopyRawToHost"s},
                             {"fail_code", code}});
      DeviceBuffer buffer =
          fixture.buffers().create(fixture.device(0), content.data(), content.size());
      std::vector<std::byte> part(1000);
      const Transfer read = buffer.read(part.data(), 3000, part.size());
      if (!has_buffer) buffer = {};
      CHECK_FALSE(read.is_done());
      release();
      if (code == 13) {
        CHECK(contains(message_of<BackendError>([&] {
                         read.wait();
                         return 0;
                       }),
                       "told to fail"));
      } else {
        read.wait();
        CHECK(std::equal(part.begin(), part.end(), content.begin() + 3000));
      }
    }
  }
  // Everything else, late.
  const TemporaryFolder folder;
  const std::string file = (folder.path() / "written").string();
  {
    PluginFixture fixture({{"callback", "alone"s}, {"late", true}});
    DeviceBuffers& buffers = fixture.buffers();
    for (int round = 0; round < 20; ++round) {
      const DeviceBuffer first = buffers.create(fixture.device(0), content.data(), content.size());
      const DeviceBuffer second = buffers.create(fixture.device(1), first);
      first.read(FileRange{File::open_to_write(file), 0, 4000}, 7).wait();
      const DeviceBuffer third =
          buffers.create(fixture.device(1), FileRange{File::open_to_read(file), 0, 4000});
      std::vector<std::byte> all(5000);
      buffers.gather(all.data(), 4000, std::span(&third, 1)).wait();
      CHECK(std::equal(all.begin(), all.begin() + 4000, content.begin() + 7));
      CHECK(content_of(second) == content);
    }
  }
  CHECK(calls() == 0);
}

TEST_CASE("an event whose callback never comes is asked for, and ends its operation") {
  for (const char* fail_event : {"", "Client_BufferFromHostBuffer"}) {
    std::atomic<int> calls = 0;
    bool has_failure = false;
    {
      PluginFixture fixture(
          {{"late", true}, {"callback", "never"s}, {"fail_event", std::string(fail_event)}});
      auto content = std::make_shared<std::vector<std::byte>>(numbered_bytes(1'000'000));
      for (int count = 0; count < 20; ++count) {
        const DeviceBuffer buffer = fixture.buffers().create(
            fixture.device(0), content->data(), content->size(),
            {.keep_alive = content, .on_done = [&](const std::exception_ptr& failure) {
               has_failure = failure != nullptr;
               ++calls;
             }});
      }
    }  // waits for all of them
    CHECK(calls == 20);
    CHECK(has_failure == (*fail_event != '\0'));
  }
}

}  // namespace pjrt_callbacks_test
