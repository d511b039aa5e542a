// SPDX-License-Identifier: Apache-2.0
#include "berth/device_buffer.hpp"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "berth/bytes.hpp"

#include "backend/backend_fixture.hpp"
#include "support/child_process.hpp"
#include "support/refused_threads.hpp"
#include "support/temporary_folder.hpp"

namespace device_buffer_test {

using namespace berth;
using namespace berth::test;

namespace {

std::string write_file(const TemporaryFolder& folder, const std::vector<std::byte>& content) {
  const std::string path = (folder.path() / "content").string();
  write_content(path, content);
  return path;
}

}  // namespace

TEST_CASE("host memory goes to a device and back, whole and in part") {
  BackendFixture fixture;
  for (const std::size_t bytes : {1ul, 7ul, 4096ul, 1000003ul}) {
    const auto content = numbered_bytes(bytes);
    const DeviceBuffer buffer = fixture.buffers().create(fixture.device(1), content.data(), bytes);
    CHECK(buffer.device() == fixture.device(1));
    CHECK(buffer.bytes() == bytes);
    CHECK(buffer.ready().bytes() == bytes);
    CHECK(are_equal(content_of(buffer), content));
    std::vector<std::byte> part(bytes - bytes / 2);
    buffer.read(part.data(), bytes / 2, part.size()).wait();
    CHECK(std::equal(part.begin(), part.end(), content.begin() + std::ptrdiff_t(bytes / 2)));
  }
}

TEST_CASE("a buffer of 0 bytes makes no call of the backend") {
  BackendFixture fixture;
  fixture.machine->refusal = "no";
  const DeviceBuffer empty = fixture.buffers().create(fixture.device(0), nullptr, 0);
  CHECK(static_cast<bool>(empty));
  CHECK(empty.bytes() == 0);
  CHECK(empty.ready().is_done());
  empty.read(nullptr, 0, 0).wait();
  const DeviceBuffer copy = fixture.buffers().create(fixture.device(1), empty);
  CHECK(copy.device() == fixture.device(1));
}

TEST_CASE("a device type without an ordinal means its device 0") {
  BackendFixture fixture;
  const auto content = numbered_bytes(10);
  const DeviceBuffer buffer = fixture.buffers().create(Device::parse("fake"), content.data(), 10);
  CHECK(buffer.device() == fixture.device(0));
}

TEST_CASE("a buffer is copied within its backend, to another one, and to and from CUDA memory") {
  BackendFixture fixture;
  fixture.register_fake("fake2");
  const auto content = numbered_bytes(300000);
  const DeviceBuffer first =
      fixture.buffers().create(fixture.device(0), content.data(), content.size());
  for (const char* target : {"fake:0", "fake:1", "fake2:0"}) {
    CAPTURE(target);
    const DeviceBuffer copy = fixture.buffers().create(Device::parse(target), first);
    CHECK(copy.device() == Device::parse(target));
    CHECK(are_equal(content_of(copy), content));
  }
  CHECK(fixture.buffers().counters(fixture.device(1)).bytes_copied == content.size());

  Runtime& runtime = fixture.runtime();
  const Device cuda = Device::cuda(1);
  const StreamLease stream = runtime.streams(cuda).acquire();
  const Allocation memory = runtime.memory(cuda).allocate(content.size(), stream);
  fixture.buffers().copy(memory.data(), first, 0, content.size(), stream).wait();
  const DeviceBuffer back =
      fixture.buffers().create(fixture.device(1), memory.data(), content.size(), stream);
  CHECK(are_equal(content_of(back), content));
  std::vector<std::byte> tail(1000);
  fixture.buffers().copy(memory.data(), first, content.size() - 1000, 1000, stream).wait();
  runtime.copier().copy(tail.data(), memory.data(), 1000, stream);
  CHECK(std::equal(tail.begin(), tail.end(), content.end() - 1000));
}

TEST_CASE("a file fills a buffer in parts, or at once where the backend cannot") {
  BackendFixture fixture;
  const TemporaryFolder folder;
  const auto content = numbered_bytes(9_MiB + 5);
  const File file = File::open_to_read(write_file(folder, content));
  for (const bool can_fill : {true, false}) {
    CAPTURE(can_fill);
    fixture.machine->can_fill = can_fill;
    fixture.machine->parts_written = 0;
    const DeviceBuffer buffer =
        fixture.buffers().create(fixture.device(0), FileRange{file, 3, 9_MiB + 1});
    buffer.ready().wait();
    CHECK(buffer.ready().bytes_done() == 9_MiB + 1);
    CHECK(fixture.machine->parts_written == (can_fill ? 3 : 0));
    const auto read = content_of(buffer);
    CHECK(std::equal(read.begin(), read.end(), content.begin() + 3));
  }
  CHECK(
      contains(message_of<FileError>([&] {
                 return fixture.buffers().create(fixture.device(0), FileRange{file, 9_MiB, 1_MiB});
               }),
               "content"));
}

TEST_CASE("a file is read no further than two parts ahead of the backend") {
  BackendFixture fixture;
  fixture.machine->is_late = true;
  const TemporaryFolder folder;
  const auto content = numbered_bytes(17_MiB);
  const File file = File::open_to_read(write_file(folder, content));
  const DeviceBuffer buffer =
      fixture.buffers().create(fixture.device(0), FileRange{file, 0, 17_MiB});
  fixture.machine->await_pending(2);
  for (int moment = 0; moment < 1000; ++moment) std::this_thread::yield();
  CHECK(fixture.machine->parts_written == 2);
  while (!buffer.ready().is_done()) fixture.machine->run_next();
  fixture.machine->is_late = false;
  CHECK(are_equal(content_of(buffer), content));
}

TEST_CASE("a failure while a file is read ends the transfer and frees what was begun") {
  BackendFixture fixture;
  const TemporaryFolder folder;
  const std::string path = write_file(folder, numbered_bytes(12_MiB));
  const File file = File::open_to_read(path);
  fixture.machine->is_late = true;
  const DeviceBuffer buffer =
      fixture.buffers().create(fixture.device(0), FileRange{file, 0, 12_MiB});
  SUBCASE("the file becomes shorter") {
    fixture.machine->await_pending(2);
    std::filesystem::resize_file(path, 8_MiB);
    while (!buffer.ready().is_done()) fixture.machine->run_next();
    message_of<FileError>([&] {
      buffer.ready().wait();
      return 0;
    });
  }
  SUBCASE("the transfer is cancelled") {
    fixture.machine->await_pending(2);
    Transfer ready = buffer.ready();
    ready.cancel();
    while (!ready.is_done()) fixture.machine->run_next();
    CHECK(contains(message_of<Cancelled>([&] {
                     ready.wait();
                     return 0;
                   }),
                   "filling a buffer of fake:0 was cancelled"));
  }
  SUBCASE("a write fails") {
    fixture.machine->await_pending(2);
    fixture.machine->failure = "broken";
    while (!buffer.ready().is_done()) fixture.machine->run_next();
    CHECK(fixture.machine->parts_written == 2);
    message_of<BackendError>([&] {
      buffer.ready().wait();
      return 0;
    });
  }
  while (fixture.machine->fillings_live > 0) std::this_thread::yield();
}

TEST_CASE("a cancelled copy of a file waits for no part, and makes room for the next file") {
  BackendFixture fixture;
  fixture.machine->is_late = true;
  const TemporaryFolder folder;
  const auto content = numbered_bytes(12_MiB);
  const File file = File::open_to_read(write_file(folder, content));
  const DeviceBuffer first =
      fixture.buffers().create(fixture.device(0), FileRange{file, 0, 12_MiB});
  fixture.machine->await_pending(2);
  const DeviceBuffer second =
      fixture.buffers().create(fixture.device(1), FileRange{file, 0, 1_MiB});
  Transfer ready = first.ready();
  ready.cancel();
  // The first two writes are still pending, and the parts that they read are kept.
  fixture.machine->await_pending(3);
  CHECK(fixture.machine->parts_written == 3);
  CHECK_FALSE(ready.is_done());
  fixture.machine->run_all();
  message_of<Cancelled>([&] { ready.wait(); });
  fixture.machine->is_late = false;
  second.ready().wait();
  CHECK(are_equal(content_of(second), numbered_bytes(1_MiB)));
}

TEST_CASE("a write that fails ends a copy of a file that waits for an earlier part") {
  BackendFixture fixture;
  fixture.machine->is_late = true;
  const TemporaryFolder folder;
  const File file = File::open_to_read(write_file(folder, numbered_bytes(12_MiB)));
  const DeviceBuffer buffer =
      fixture.buffers().create(fixture.device(0), FileRange{file, 0, 12_MiB});
  fixture.machine->await_pending(2);
  const auto first = fixture.machine->take_next();
  fixture.machine->failure = "broken";
  CHECK(fixture.machine->run_next());  // the second part
  while (fixture.machine->fillings_live > 0) std::this_thread::yield();
  fixture.machine->failure.clear();
  first();
  CHECK(message_of<BackendError>([&] { buffer.ready().wait(); }) == "fake: broken");
}

TEST_CASE("a backend that refuses a part is the reason of the failure") {
  BackendFixture fixture;
  fixture.machine->refuses_parts = true;
  const TemporaryFolder folder;
  const File file = File::open_to_read(write_file(folder, numbered_bytes(12_MiB)));
  const DeviceBuffer buffer =
      fixture.buffers().create(fixture.device(0), FileRange{file, 0, 12_MiB});
  CHECK(message_of<BackendError>([&] { buffer.ready().wait(); }) == "fake: no part");
}

TEST_CASE("an asynchronous operation ends when the backend completes it, and destructors wait") {
  BackendFixture fixture;
  fixture.machine->is_late = true;
  const auto content = numbered_bytes(100);
  std::atomic<bool> is_checked = false;
  std::atomic<bool> is_gone = false;
  std::thread owner([&] {
    {
      const DeviceBuffer buffer = fixture.buffers().create(fixture.device(0), content.data(), 100);
      CHECK_FALSE(buffer.ready().is_done());
      CHECK(buffer.ready().bytes_done() == 0);
      is_checked = true;
    }
    is_gone = true;
  });
  while (!is_checked) std::this_thread::yield();
  CHECK(fixture.machine->pending_count() == 1);
  CHECK_FALSE(is_gone);
  CHECK(fixture.machine->run_next());
  owner.join();
  CHECK(is_gone);
}

TEST_CASE("with keep_alive a destructor does not wait, and the owner lives to the end") {
  BackendFixture fixture;
  fixture.machine->is_late = true;
  auto content = std::make_shared<std::vector<std::byte>>(numbered_bytes(100));
  const std::weak_ptr<std::vector<std::byte>> watched = content;
  {
    const DeviceBuffer buffer = fixture.buffers().create(fixture.device(0), content->data(),
                                                         content->size(), {.keep_alive = content});
    content = nullptr;
  }
  CHECK(fixture.machine->buffers_live == 0);
  CHECK_FALSE(watched.expired());
  CHECK(fixture.machine->run_next());
  while (!watched.expired()) std::this_thread::yield();
}

TEST_CASE("on_done is called once, on another thread, with the failure") {
  BackendFixture fixture;
  const auto content = numbered_bytes(100);
  std::atomic<int> calls = 0;
  std::string message;
  fixture.machine->failure = "broken";
  {
    const DeviceBuffer buffer = fixture.buffers().create(
        fixture.device(0), content.data(), 100,
        {.on_done = [&, caller = std::this_thread::get_id()](std::exception_ptr failure) {
          CHECK(std::this_thread::get_id() != caller);
          message = message_of<BackendError>([&] {
            std::rethrow_exception(failure);
            return 0;
          });
          ++calls;
        }});
    while (calls == 0) std::this_thread::yield();
  }
  CHECK(message == "fake: broken");
  CHECK(calls == 1);
}

TEST_CASE("a failure that nothing observes is reported once") {
  BackendFixture fixture;
  fixture.simulation.errors_expected = true;
  fixture.machine->failure = "broken";
  const auto content = numbered_bytes(100);
  { const DeviceBuffer buffer = fixture.buffers().create(fixture.device(0), content.data(), 100); }
  CHECK(fixture.simulation.reports.count(Severity::error) == 1);
  CHECK(fixture.simulation.reports.mention("filling a buffer of fake:0 failed: fake: broken"));
  {
    const DeviceBuffer buffer = fixture.buffers().create(fixture.device(0), content.data(), 100);
    CHECK(buffer.ready().failure() != nullptr);
  }
  CHECK(fixture.simulation.reports.count(Severity::error) == 1);
}

TEST_CASE("a call that the backend refuses leaves no state, and the next call succeeds") {
  BackendFixture fixture;
  const auto content = numbered_bytes(100);
  const DeviceBuffer good = fixture.buffers().create(fixture.device(0), content.data(), 100);
  fixture.machine->refusal = "no room";
  bool is_called = false;
  auto owner = std::make_shared<int>(1);
  const auto options = [&] {
    return TransferOptions{.keep_alive = owner,
                           .on_done = [&](const std::exception_ptr&) { is_called = true; }};
  };
  std::vector<std::byte> target(100);
  CHECK(message_of<BackendError>([&] {
          return fixture.buffers().create(fixture.device(0), content.data(), 100, options());
        }) == "fake: no room");
  message_of<BackendError>([&] { return good.read(target.data(), 0, 100, options()); });
  message_of<BackendError>(
      [&] { return fixture.buffers().create(fixture.device(1), good, options()); });
  CHECK(owner.use_count() == 1);
  CHECK(fixture.machine->buffers_live == 1);
  fixture.machine->refusal.clear();
  CHECK(are_equal(content_of(good), content));
  CHECK_FALSE(is_called);
  CHECK(fixture.simulation.reports.count(Severity::error) == 0);
}

TEST_CASE("an operation that the backend drops has failed") {
  BackendFixture fixture;
  fixture.machine->drops = true;
  const auto content = numbered_bytes(100);
  const DeviceBuffer buffer = fixture.buffers().create(fixture.device(0), content.data(), 100);
  CHECK(message_of<BackendError>([&] {
          buffer.ready().wait();
          return 0;
        }) == "filling a buffer of fake:0: the backend has dropped the operation");
}

TEST_CASE("a backend that reports success and gives no buffer is refused") {
  BackendFixture fixture;
  const TemporaryFolder folder;
  const auto content = numbered_bytes(100);
  const File file = File::open_to_read(write_file(folder, content));
  const DeviceBuffer good = fixture.buffers().create(fixture.device(0), content.data(), 100);
  fixture.machine->gives_nothing = true;
  auto owner = std::make_shared<int>(1);
  bool is_called = false;
  const auto options = [&] {
    return TransferOptions{.keep_alive = owner,
                           .on_done = [&](const std::exception_ptr&) { is_called = true; }};
  };
  const std::string refusal = "the backend of fake:1 (fake 1.0) gave no buffer";
  CHECK(message_of<BackendError>([&] {
          return fixture.buffers().create(fixture.device(1), content.data(), 100, options());
        }) == refusal);
  CHECK(message_of<BackendError>([&] {
          return fixture.buffers().create(fixture.device(1), FileRange{file, 0, 100}, options());
        }) == refusal);
  CHECK(message_of<BackendError>([&] {
          return fixture.buffers().create(fixture.device(1), good, options());
        }) == refusal);
  CHECK(owner.use_count() == 1);
  CHECK_FALSE(is_called);
  const BufferCounters counters = fixture.buffers().counters(fixture.device(1));
  CHECK(counters.buffers_created == 0);
  CHECK(counters.bytes_written + counters.bytes_copied == 0);
  CHECK(fixture.buffers().create(fixture.device(1), nullptr, 0).bytes() == 0);
  fixture.machine->gives_nothing = false;
  CHECK(are_equal(content_of(good), content));
}

TEST_CASE("invalid ranges, device pointers and devices without a backend are refused") {
  BackendFixture fixture;
  Runtime& runtime = fixture.runtime();
  const auto content = numbered_bytes(100);
  const DeviceBuffer buffer = fixture.buffers().create(fixture.device(0), content.data(), 100);
  std::vector<std::byte> target(200);
  for (const auto& [offset, bytes] :
       {std::pair(0ul, 101ul), {100ul, 1ul}, {101ul, 0ul}, {1ul, SIZE_MAX}}) {
    CHECK(contains(message_of<InvalidArgument>([&, offset = offset, bytes = bytes] {
                     return buffer.read(target.data(), offset, bytes);
                   }),
                   "are not in a buffer of fake:0 with 100 B"));
  }
  CHECK(contains(message_of<InvalidArgument>([&] { return buffer.read(nullptr, 0, 1); }), "null"));
  CHECK(contains(message_of<InvalidArgument>(
                     [&] { return fixture.buffers().create(fixture.device(0), nullptr, 1); }),
                 "null"));
  CHECK(contains(
      message_of<InvalidArgument>([&] { return DeviceBuffer().read(target.data(), 0, 1); }),
      "the buffer object is empty"));
  for (const Device other : {Device::cpu(), Device::cuda(0)}) {
    CHECK(contains(message_of<InvalidArgument>([&] {
                     return fixture.buffers().create(other, content.data(), content.size());
                   }),
                   "has no backend: its memory comes from an allocator"));
  }
  const StreamLease stream = runtime.streams(Device::cuda(0)).acquire();
  const Allocation memory = runtime.memory(Device::cuda(0)).allocate(100, stream);
  CHECK(contains(message_of<InvalidArgument>([&] {
                   return fixture.buffers().create(fixture.device(0), memory.data(), 100);
                 }),
                 "is memory of cuda:0"));
  CHECK(contains(message_of<InvalidArgument>([&] { return buffer.read(memory.data(), 0, 100); }),
                 "is memory of cuda:0"));
}

TEST_CASE("a buffer outlives its Runtime without memory") {
  std::optional<BackendFixture> fixture(std::in_place);
  const auto machine = fixture->machine;
  const auto content = numbered_bytes(100);
  const DeviceBuffer buffer = fixture->buffers().create(fixture->device(0), content.data(), 100);
  const Device device = buffer.device();
  fixture.reset();
  CHECK(machine->buffers_live == 0);
  CHECK(buffer.device() == device);
  CHECK(buffer.bytes() == 100);
  std::vector<std::byte> target(100);
  CHECK(message_of<InvalidArgument>([&] { return buffer.read(target.data(), 0, 100); }) ==
        "a buffer is used after its Runtime was destroyed");
}

TEST_CASE("buffers may be destroyed while another thread destroys their Runtime") {
  const auto content = numbered_bytes(100);
  for (int round = 0; round < 50; ++round) {
    std::optional<BackendFixture> fixture(std::in_place);
    const auto machine = fixture->machine;
    std::vector<DeviceBuffer> buffers;
    for (int count = 0; count < 40; ++count)
      buffers.push_back(fixture->buffers().create(fixture->device(0), content.data(), 100));
    std::atomic<bool> starts = false;
    std::thread other([&] {
      starts = true;
      for (DeviceBuffer& buffer : buffers) buffer = {};
    });
    while (!starts) std::this_thread::yield();
    fixture->simulation.runtime.reset();
    CHECK(machine->buffers_live == 0);
    other.join();
    CHECK(machine->buffers_live == 0);
  }
}

TEST_CASE("the end of the Runtime waits for pending operations and their callbacks") {
  std::atomic<int> calls = 0;
  auto content = std::make_shared<std::vector<std::byte>>(numbered_bytes(100));
  std::optional<BackendFixture> fixture(std::in_place);
  const auto machine = fixture->machine;
  machine->is_late = true;
  {
    const DeviceBuffer buffer = fixture->buffers().create(
        fixture->device(0), content->data(), 100,
        {.keep_alive = content, .on_done = [&](const std::exception_ptr&) { ++calls; }});
  }
  std::thread backend([&] {
    while (machine->pending_count() == 0) std::this_thread::yield();
    machine->run_next();
  });
  fixture->simulation.runtime.reset();
  CHECK(calls == 1);
  backend.join();
}

TEST_CASE("a forked child is refused, and frees nothing of its parent's") {
  BackendFixture fixture;
  const auto content = numbered_bytes(100);
  DeviceBuffer buffer = fixture.buffers().create(fixture.device(0), content.data(), 100);
  std::vector<std::byte> target(100);
  const auto child = [&] {
    bool is_refused = is_refused_after_fork([&] { buffer.read(target.data(), 0, 100); });
    is_refused &= is_refused_after_fork([&] {
      static_cast<void>(fixture.buffers().create(fixture.device(0), content.data(), 100));
    });
    is_refused &= is_refused_after_fork(
        [&] { static_cast<void>(fixture.runtime().devices().device_memory(fixture.device(0))); });
    { const DeviceBuffer dropped = std::move(buffer); }
    fixture.simulation.runtime.reset();
    const bool is_whole = fixture.machine->buffers_live == 1 && fixture.machine->backends_live == 1;
    return is_refused && is_whole ? 0 : 1;
  };
  CHECK(exit_code_of(child) == 0);
  CHECK(are_equal(content_of(buffer), content));
}

TEST_CASE("counters follow the buffers of each device") {
  BackendFixture fixture;
  const auto content = numbered_bytes(1000);
  const auto counters = [&] { return fixture.buffers().counters(fixture.device(1)); };
  {
    const DeviceBuffer a = fixture.buffers().create(fixture.device(1), content.data(), 1000);
    const DeviceBuffer b = fixture.buffers().create(fixture.device(1), content.data(), 500);
    static_cast<void>(content_of(b));
    CHECK(counters().buffers_live == 2);
    CHECK(counters().bytes_live == 1500);
  }
  CHECK(counters().buffers_live == 0);
  CHECK(counters().bytes_live == 0);
  CHECK(counters().bytes_live_peak == 1500);
  CHECK(counters().buffers_created == 2);
  CHECK(counters().bytes_written == 1500);
  CHECK(counters().bytes_read == 500);
  CHECK(fixture.buffers().counters(fixture.device(0)).buffers_created == 0);
}

TEST_CASE("many threads create, read and copy buffers at once") {
  BackendFixture fixture;
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (unsigned seed = 0; seed < 4; ++seed) {
    threads.emplace_back([&, seed] {
      const auto content = numbered_bytes(5000, seed);
      for (int round = 0; round < 200; ++round) {
        const DeviceBuffer a =
            fixture.buffers().create(fixture.device(round % 2), content.data(), 5000);
        const DeviceBuffer b = fixture.buffers().create(fixture.device(1), a);
        if (content_of(b) != content) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
}

TEST_CASE("a buffer that needs a thread is refused if none can be started") {
  if (!kCanRefuseThreads) return;
  BackendFixture fixture;
  const auto content = numbered_bytes(100);
  const auto kept = std::make_shared<int>();
  const RefusedThreads refused;
  CHECK_THROWS_AS(static_cast<void>(fixture.buffers().create(fixture.device(0), content.data(), 100,
                                                             {.keep_alive = kept})),
                  Exhausted);
  CHECK(kept.use_count() == 1);
}

}  // namespace device_buffer_test
