// SPDX-License-Identifier: Apache-2.0
// Buffers of a plug-in whose operations end at once, and of one whose operations end later.
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "berth/bytes.hpp"

#include "pjrt/plugin_fixture.hpp"
#include "support/temporary_folder.hpp"

namespace pjrt_buffers_test {

using namespace berth;
using namespace berth::test;
using namespace std::string_literals;

TEST_CASE("bytes arrive in every pairing, size and part") {
  for (const bool is_late : {false, true}) {
    for (const bool no_raw_reads : {false, true}) {
      PluginFixture fixture({{"late", is_late}, {"no_raw_reads", no_raw_reads}});
      for (const std::size_t bytes : {1ul, 4096ul, 1000003ul}) {
        CAPTURE(bytes);
        const auto content = numbered_bytes(bytes);
        const DeviceBuffer first =
            fixture.buffers().create(fixture.device(0), content.data(), bytes);
        const DeviceBuffer same = fixture.buffers().create(fixture.device(0), first);
        const DeviceBuffer other = fixture.buffers().create(fixture.device(1), same);
        for (const DeviceBuffer* buffer : {&first, &same, &other}) {
          CHECK(content_of(*buffer) == content);
          std::vector<std::byte> tail(bytes - bytes / 3);
          buffer->read(tail.data(), bytes / 3, tail.size()).wait();
          CHECK(std::equal(tail.begin(), tail.end(), content.end() - std::ptrdiff_t(tail.size())));
        }
      }
    }
  }
}

TEST_CASE("a part is read from the whole if the plug-in reports late that it reads no parts") {
  constexpr std::int64_t kUnimplemented = 12;
  for (const bool is_late : {false, true}) {
    PluginFixture fixture(
        {{"late", is_late}, {"fail_event", "Buffer_CopyRawToHost"}, {"fail_code", kUnimplemented}});
    const auto content = numbered_bytes(5000);
    const DeviceBuffer buffer =
        fixture.buffers().create(fixture.device(0), content.data(), content.size());
    for (int time = 0; time < 2; ++time) {
      std::vector<std::byte> part(1000);
      buffer.read(part.data(), 3000, part.size()).wait();
      CHECK(std::equal(part.begin(), part.end(), content.begin() + 3000));
    }
  }
}

TEST_CASE("a part is read from the whole though its buffer has gone meanwhile") {
  PluginFixture fixture({{"holds", "Buffer_CopyRawToHost"s},
                         {"fail_event", "Buffer_CopyRawToHost"s},
                         {"fail_code", std::int64_t{12}}});
  const auto content = numbered_bytes(5000);
  std::vector<std::byte> part(1000);
  Transfer read;
  {
    const DeviceBuffer buffer =
        fixture.buffers().create(fixture.device(0), content.data(), content.size());
    read = buffer.read(part.data(), 3000, part.size());
  }
  CHECK_FALSE(read.is_done());
  plugin_function<void()>(fixture.path, "berth_test_pjrt_release")();
  read.wait();
  CHECK(std::equal(part.begin(), part.end(), content.begin() + 3000));
}

TEST_CASE("a file fills a buffer, in parts if the plug-in supports them") {
  const TemporaryFolder folder;
  const auto content = numbered_bytes(9_MiB + 5);
  const std::string path = (folder.path() / "content").string();
  write_content(path, content);
  const File file = File::open_to_read(path);
  for (const bool is_late : {false, true}) {
    for (const bool no_parts : {false, true}) {
      PluginFixture fixture({{"late", is_late}, {"no_parts", no_parts}});
      const DeviceBuffer buffer =
          fixture.buffers().create(fixture.device(1), FileRange{file, 0, content.size()});
      CHECK(content_of(buffer) == content);  // behind the filling
      // The plug-in refuses a copy to the device that the buffer is on.
      CHECK(content_of(fixture.buffers().create(fixture.device(0), buffer)) == content);
      CHECK(buffer.ready().bytes_done() == content.size());
    }
  }
}

TEST_CASE("a buffer is written to a file, also where the plug-in reads whole buffers only") {
  const TemporaryFolder folder;
  const auto content = numbered_bytes(9_MiB + 5);
  for (const bool is_late : {false, true}) {
    for (const bool no_raw_reads : {false, true}) {
      PluginFixture fixture({{"late", is_late}, {"no_raw_reads", no_raw_reads}});
      const std::string path = (folder.path() / "written").string();
      const DeviceBuffer buffer =
          fixture.buffers().create(fixture.device(1), content.data(), content.size());
      buffer.read(FileRange{File::open_to_write(path), 0, 9_MiB}, 5).wait();
      std::vector<std::byte> written(9_MiB);
      File::open_to_read(path).read(written, 0);
      CHECK(std::equal(written.begin(), written.end(), content.begin() + 5));
    }
  }
}

TEST_CASE("a file that fails halfway fails the buffer and its reads") {
  const TemporaryFolder folder;
  const auto content = numbered_bytes(9_MiB);
  const std::string path = (folder.path() / "content").string();
  write_content(path, content);
  const File file = File::open_to_read(path);
  PluginFixture fixture(
      {{"late", true},
       {"fail_event", std::string("AsyncHostToDeviceTransferManager_TransferData")}});
  const DeviceBuffer buffer =
      fixture.buffers().create(fixture.device(0), FileRange{file, 0, content.size()});
  message_of<BackendError>([&] {
    buffer.ready().wait();
    return 0;
  });
}

TEST_CASE("a thousand buffers live at once and are all released") {
  PluginFixture fixture({{"late", true}, {"devices", std::int64_t{4}}});
  std::vector<std::vector<std::byte>> contents;
  std::vector<DeviceBuffer> buffers;
  for (unsigned i = 0; i < 1000; ++i) contents.push_back(numbered_bytes(100 + i, i));
  for (unsigned i = 0; i < 1000; ++i) {
    buffers.push_back(fixture.buffers().create(fixture.device(int(i % 4)), contents[i].data(),
                                               contents[i].size()));
  }
  int wrong = 0;
  for (unsigned i = 0; i < 1000; ++i) wrong += content_of(buffers[i]) == contents[i] ? 0 : 1;
  CHECK(wrong == 0);
}

TEST_CASE("a buffer is filled when the plug-in is done with the source") {
  for (const bool is_late : {false, true}) {
    CAPTURE(is_late);
    PluginFixture fixture({{"holds_source", true}, {"late", is_late}});
    const auto release = plugin_function<void()>(fixture.path, "berth_test_pjrt_release");
    auto content = std::make_shared<std::vector<std::byte>>(numbered_bytes(1000));
    const std::vector<std::byte> expected = *content;
    const std::weak_ptr<std::vector<std::byte>> watched = content;
    DeviceBuffer buffer =
        fixture.buffers().create(fixture.device(0), content->data(), 1000, {.keep_alive = content});
    content = nullptr;
    CHECK(content_of(buffer) == expected);
    CHECK_FALSE(buffer.ready().is_done());
    const DeviceBuffer copy = fixture.buffers().create(fixture.device(1), buffer);
    copy.ready().wait();
    buffer = {};  // the plug-in still has the source
    CHECK_FALSE(watched.expired());
    release();
    while (!watched.expired()) std::this_thread::yield();
    CHECK(content_of(copy) == expected);

    std::atomic<bool> is_gone = false;
    std::thread owner([&] {
      { const auto filled = fixture.buffers().create(fixture.device(0), expected.data(), 1000); }
      is_gone = true;
    });
    while (fixture.buffers().counters(fixture.device(0)).buffers_created < 2)
      std::this_thread::yield();
    CHECK_FALSE(is_gone);
    release();
    owner.join();
    CHECK(is_gone);
  }
}

TEST_CASE("a plug-in that cannot call back is waited for") {
  PluginFixture fixture({{"late", true}, {"fail", std::string("Event_OnReady")}});
  const auto content = numbered_bytes(1'000'000);
  for (int round = 0; round < 10; ++round) {
    DeviceBuffer buffer;
    {
      auto source = content;  // gone at the end of this block
      buffer = fixture.buffers().create(fixture.device(0), source.data(), source.size());
      CHECK(buffer.ready().is_done());
      CHECK(buffer.ready().failure() == nullptr);
    }
    CHECK(content_of(buffer) == content);
    CHECK(content_of(fixture.buffers().create(fixture.device(1), buffer)) == content);
  }
}

TEST_CASE("threads share a client with delayed events") {
  PluginFixture fixture({{"late", true}});
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  std::atomic<int> calls = 0;
  for (unsigned seed = 0; seed < 4; ++seed) {
    threads.emplace_back([&, seed] {
      const auto content = numbered_bytes(5000, seed);
      for (int round = 0; round < 100; ++round) {
        const DeviceBuffer a = fixture.buffers().create(
            fixture.device(round % 2), content.data(), 5000,
            {.on_done = [&](const std::exception_ptr& failure) { calls += failure == nullptr; }});
        const DeviceBuffer b = fixture.buffers().create(fixture.device(1), a);
        if (content_of(b) != content) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
  fixture.simulation.runtime.reset();
  CHECK(calls == 400);
}

}  // namespace pjrt_buffers_test
