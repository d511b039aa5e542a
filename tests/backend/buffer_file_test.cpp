// SPDX-License-Identifier: Apache-2.0
// Copies of buffers to files.
#include <algorithm>
#include <cstddef>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "berth/bytes.hpp"
#include "berth/device_buffer.hpp"

#include "backend/backend_fixture.hpp"
#include "support/refused_threads.hpp"
#include "support/temporary_folder.hpp"

namespace buffer_file_test {

using namespace berth;
using namespace berth::test;

namespace {

struct Target {
  TemporaryFolder folder;
  std::string path = (folder.path() / "target").string();
  File file = File::open_to_write(path);
};

}  // namespace

TEST_CASE("a range of a buffer is written to a range of a file") {
  BackendFixture fixture;
  for (const std::size_t bytes : {std::size_t{1}, 4_MiB - 1, 4_MiB, 4_MiB + 1, 12_MiB + 5}) {
    for (const bool is_late : {false, true}) {
      CAPTURE(bytes);
      fixture.machine->is_late = false;
      const Target target;
      const auto content = numbered_bytes(bytes + 10);
      const DeviceBuffer buffer =
          fixture.buffers().create(fixture.device(1), content.data(), content.size());
      fixture.machine->is_late = is_late;
      const Transfer written = buffer.read(FileRange{target.file, 3, bytes}, 7);
      while (!written.is_done()) {
        fixture.machine->run_next();
        std::this_thread::yield();
      }
      written.wait();
      CHECK(written.bytes() == bytes);
      CHECK(written.bytes_done() == bytes);
      std::vector<std::byte> expected(3);
      expected.insert(expected.end(), content.begin() + 7, content.end() - 3);
      CHECK(are_equal(content_of_file(target.path), expected));
    }
  }
  const BufferCounters counters = fixture.buffers().counters(fixture.device(1));
  CHECK(counters.bytes_read == 2 * (1 + 3 * 4_MiB + 12_MiB + 5));
}

TEST_CASE("a buffer is read two parts ahead of the file, which gives the progress") {
  BackendFixture fixture;
  const Target target;
  const auto content = numbered_bytes(17_MiB);
  const DeviceBuffer buffer =
      fixture.buffers().create(fixture.device(0), content.data(), content.size());
  fixture.machine->is_late = true;
  const Transfer written = buffer.read(FileRange{target.file, 0, 17_MiB}, 0);
  for (std::size_t parts = 0; parts < 5; ++parts) {
    const std::size_t ahead = std::min<std::size_t>(2, 5 - parts);
    fixture.machine->await_pending(ahead);
    CHECK(fixture.machine->pending_count() == ahead);
    CHECK(written.bytes_done() == parts * 4_MiB);
    CHECK_FALSE(written.is_done());
    fixture.machine->run_next();
    while (written.bytes_done() == parts * 4_MiB) std::this_thread::yield();
  }
  written.wait();
  CHECK(are_equal(content_of_file(target.path), content));
}

TEST_CASE("a buffer may be destroyed while it is written, and its memory lives to the end") {
  BackendFixture fixture;
  const Target target;
  const auto content = numbered_bytes(9_MiB);
  fixture.machine->is_late = true;
  Transfer written;
  {
    auto source = std::make_shared<std::vector<std::byte>>(content);
    const DeviceBuffer buffer = fixture.buffers().create(fixture.device(0), source->data(),
                                                         source->size(), {.keep_alive = source});
    written = buffer.read(FileRange{target.file, 0, 9_MiB}, 0);
  }
  CHECK(fixture.machine->buffers_live == 1);
  CHECK(fixture.buffers().counters(fixture.device(0)).buffers_live == 0);
  while (!written.is_done()) {
    fixture.machine->run_next();
    std::this_thread::yield();
  }
  written.wait();
  CHECK(fixture.machine->buffers_live == 0);
  CHECK(are_equal(content_of_file(target.path), content));
}

TEST_CASE("a cancelled write of a buffer waits for no part") {
  BackendFixture fixture;
  const Target target;
  const Target other;
  const auto content = numbered_bytes(12_MiB);
  const DeviceBuffer buffer =
      fixture.buffers().create(fixture.device(0), content.data(), content.size());
  fixture.machine->is_late = true;
  Transfer written = buffer.read(FileRange{target.file, 0, 12_MiB}, 0);
  fixture.machine->await_pending(2);
  written.cancel();
  const Transfer next = buffer.read(FileRange{other.file, 0, 1_MiB}, 0);
  fixture.machine->await_pending(3);
  CHECK_FALSE(written.is_done());
  fixture.machine->run_all();
  CHECK(message_of<Cancelled>([&] { written.wait(); }) ==
        "writing to a file a buffer of fake:0 was cancelled");
  next.wait();
  CHECK(content_of_file(target.path).empty());
  CHECK(are_equal(content_of_file(other.path), numbered_bytes(1_MiB)));
}

TEST_CASE("failures of the backend and of the file are those of the transfer") {
  BackendFixture fixture;
  const auto content = numbered_bytes(9_MiB);
  const DeviceBuffer buffer =
      fixture.buffers().create(fixture.device(0), content.data(), content.size());
  const Target target;
  const FileRange range{target.file, 0, 9_MiB};
  fixture.machine->failure = "broken";
  CHECK(message_of<BackendError>([&] { buffer.read(range, 0).wait(); }) == "fake: broken");
  fixture.machine->failure.clear();
  fixture.machine->refusal = "no room";
  CHECK(message_of<BackendError>([&] { buffer.read(range, 0).wait(); }) == "fake: no room");
  fixture.machine->refusal.clear();
  fixture.machine->drops = true;
  CHECK(contains(message_of<BackendError>([&] { buffer.read(range, 0).wait(); }),
                 "the backend has dropped the operation"));
  fixture.machine->drops = false;
  const File full = File::open_to_write("/dev/full", FileCaching::cached);
  CHECK(contains(message_of<FileError>([&] {
                   buffer.read(FileRange{full, 0, 9_MiB}, 0).wait();
                 }),
                 "/dev/full"));
  buffer.read(range, 0).wait();
  CHECK(are_equal(content_of_file(target.path), content));
}

TEST_CASE("what is no range of the buffer, or no file to write, is refused") {
  BackendFixture fixture;
  const Target target;
  const auto content = numbered_bytes(100);
  const DeviceBuffer buffer = fixture.buffers().create(fixture.device(0), content.data(), 100);
  const auto refusal = [&](const FileRange& range, std::size_t offset) {
    return message_of<InvalidArgument>([&] { return buffer.read(range, offset); });
  };
  CHECK(contains(refusal({target.file, 0, 100}, 1), "100 B at 1 are not in a buffer of fake:0"));
  CHECK(contains(refusal({target.file, 0, 0}, 101), "0 B at 101 are not in a buffer of fake:0"));
  CHECK(contains(refusal({File(), 0, 100}, 0), "the file object is empty"));
  CHECK(contains(refusal({File::open_to_read(target.path), 0, 100}, 0), "is open to read"));
  CHECK(contains(message_of<InvalidArgument>([&] {
                   return DeviceBuffer().read(FileRange{target.file, 0, 0}, 0);
                 }),
                 "the buffer object is empty"));
  message_of<FileError>([&] { return buffer.read(FileRange{target.file, ~0ull - 5, 100}, 0); });
  const Transfer nothing = buffer.read(FileRange{target.file, 5, 0}, 100);
  CHECK(nothing.is_done());
  CHECK(content_of_file(target.path).empty());
}

TEST_CASE("a copy whose thread cannot be started is refused and not counted") {
  if (!kCanRefuseThreads) return;
  BackendFixture fixture;
  const Target target;
  const auto content = numbered_bytes(100);
  const DeviceBuffer buffer = fixture.buffers().create(fixture.device(0), content.data(), 100);
  std::ofstream(target.path, std::ios::binary).write("content", 7);
  const File source = File::open_to_read(target.path);
  {
    const RefusedThreads refused;
    CHECK_THROWS_AS(static_cast<void>(buffer.read(FileRange{target.file, 0, 100}, 0)), Exhausted);
    CHECK_THROWS_AS(
        static_cast<void>(fixture.buffers().create(fixture.device(0), FileRange{source, 0, 7})),
        Exhausted);
  }
  const BufferCounters counters = fixture.buffers().counters(fixture.device(0));
  CHECK(counters.bytes_read == 0);
  CHECK(counters.bytes_written == 100);
  CHECK(counters.buffers_created == 1);
}

}  // namespace buffer_file_test
