// SPDX-License-Identifier: Apache-2.0
// Copies of file ranges to device memory and back: all bytes arrive, and no others are written.
#include <algorithm>
#include <filesystem>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "copy/file_fixture.hpp"
#include "support/captured_graph.hpp"

namespace file_copy_test {

using namespace berth;
using namespace berth::test;

namespace {

constexpr std::size_t kSlot = 64_KiB;
constexpr std::size_t kSlots = 4;
constexpr std::size_t kRing = kSlot * kSlots;

CopierOptions small_ring() {
  return {.staging_slot_bytes = kSlot, .staging_slots = kSlots, .file_workers = 2};
}

sim::Config machine(sim::Progress progress) {
  sim::Config config;
  config.devices = 2;
  config.progress = progress;
  return config;
}

struct FileCopyTest : CopyTest {
  explicit FileCopyTest(
      sim::Progress progress = sim::Progress::eager,
      const std::filesystem::path& parent = std::filesystem::temp_directory_path())
      : CopyTest(machine(progress), small_ring()), folder(parent) {}
  FileCopyTest(const sim::Config& config, std::filesystem::path parent)
      : CopyTest(config, small_ring()), folder(parent) {}

  /// Reads a range of a file of `content`, and compares.
  void check_read(const Bytes& content, std::size_t offset, std::size_t bytes, FileCaching caching,
                  const Stream& stream) {
    CAPTURE(offset);
    CAPTURE(bytes);
    Buffer target(*this, Kind::device, bytes);
    const Transfer transfer =
        copier.start(target.data(), {File::open_to_read(path, caching), offset, bytes}, stream);
    transfer.wait();
    CHECK(transfer.bytes() == bytes);
    CHECK(transfer.bytes_done() == bytes);
    const auto begin = content.begin() + std::ptrdiff_t(offset);
    CHECK((target.read() == Bytes(begin, begin + std::ptrdiff_t(bytes))));
    CHECK(target.guards_hold());
  }
  /// Writes a range of a file of `content`, and compares all of it.
  void check_write(const Bytes& content, std::size_t offset, std::size_t bytes, FileCaching caching,
                   const Stream& stream) {
    CAPTURE(offset);
    CAPTURE(bytes);
    write_file(path, content);
    const Bytes written = pattern(bytes, bytes);
    Buffer source(*this, Kind::device, bytes);
    source.write(written);
    const File file = File::open_to_write(path, caching);
    const Transfer transfer = copier.start({file, offset, bytes}, source.data(), stream);
    transfer.wait();
    CHECK(transfer.bytes() == bytes);
    CHECK(transfer.bytes_done() == bytes);
    Bytes expected = content;
    expected.resize(std::max(content.size(), offset + bytes));
    std::copy(written.begin(), written.end(), expected.begin() + std::ptrdiff_t(offset));
    CHECK((read_file(path) == expected));
  }

  const TemporaryFolder folder;
  const std::string path = folder.path() / "weights";
};

const std::size_t kEdges[] = {0, 1, 511, 4095, 4096, kSlot - 1, kSlot, kSlot + 1};

/// In each folder, and in each way in which files there can be opened.
template <class Test>
void with_each_caching(const Test& check) {
  for (const auto& parent : parent_folders()) {
    CAPTURE(parent);
    FileCopyTest test(sim::Progress::eager, parent);
    const Stream stream = test.stream();
    write_file(test.path, {});
    for (const FileCaching caching : kCachings) {
      CAPTURE(int(caching));
      if (can_open(test.path, caching)) check(test, stream, caching);
    }
  }
}

}  // namespace

TEST_CASE("every range of a file arrives in device memory, however it is read") {
  with_each_caching([](FileCopyTest& test, const Stream& stream, FileCaching caching) {
    const Bytes content = pattern(7 * kSlot + 77, 1);
    write_file(test.path, content);
    for (const std::size_t offset : kEdges) {
      evict(test.path);
      for (const std::size_t bytes : kEdges)
        test.check_read(content, offset, bytes, caching, stream);
      test.check_read(content, offset, 5 * kSlot + 3, caching, stream);
      test.check_read(content, offset, content.size() - offset, caching, stream);
    }
  });
}

TEST_CASE("every range of a file is written from device memory, and nothing around it") {
  with_each_caching([](FileCopyTest& test, const Stream& stream, FileCaching caching) {
    const Bytes content = pattern(3 * kSlot + 77, 1);
    for (const std::size_t offset : {std::size_t{0}, std::size_t{511}, kSlot - 1}) {
      for (const std::size_t bytes : kEdges)
        test.check_write(content, offset, bytes, caching, stream);
      test.check_write(content, offset, 5 * kSlot + 3, caching, stream);  // extends it
    }
    test.check_write(content, 4096, kSlot, caching, stream);
    test.check_write(content, 4 * kSlot + 5, kSlot, caching, stream);  // leaves a hole
    test.check_write({}, 0, 2 * kSlot + 1, caching, stream);
  });
}

TEST_CASE("copies of files follow the order of their stream in every progress mode") {
  for (const auto progress : {sim::Progress::manual, sim::Progress::random}) {
    CAPTURE(int(progress));
    FileCopyTest test(progress);
    const Stream stream = test.stream();
    const Bytes content = pattern(3 * kRing + 9, 1);
    write_file(test.path, content);
    const std::string copied = test.folder.path() / "copied";
    Buffer middle(test, Kind::device, content.size() - 5);
    test.copier.fill_async(middle.data(), 1, middle.bytes(), stream);
    test.copier.start(middle.data(), {File::open_to_read(test.path), 5, middle.bytes()}, stream);
    const Transfer out =
        test.copier.start({File::open_to_write(copied), 0, middle.bytes()}, middle.data(), stream);
    test.copier.fill_async(middle.data(), 2, middle.bytes(), stream);
    out.wait();
    CHECK((read_file(copied) == Bytes(content.begin() + 5, content.end())));
    stream.ref().sync();
    CHECK((middle.read() == Bytes(middle.bytes(), 2)));
  }
}

TEST_CASE("start() waits for no disk and no device, and progress counts the caller's bytes" *
          needs_gates()) {
  FileCopyTest test(sim::Progress::manual);
  const Stream stream = test.stream();
  const Bytes content = pattern(4 * kRing, 1);
  write_file(test.path, content);
  Buffer target(test, Kind::device, 3 * kRing);
  test.log.submit(stream, "earlier");
  const Transfer transfer = test.copier.start(
      target.data(), {File::open_to_read(test.path), 100, target.bytes()}, stream);
  CHECK_FALSE(test.log.is_done("earlier"));
  CHECK_FALSE(transfer.is_done());
  CHECK(transfer.bytes() == target.bytes());
  CHECK(transfer.bytes_done() == 0);
  CHECK(test.copier.counters().staging_waits == 0);
  std::size_t before = 0;
  while (!transfer.is_done()) {
    test.run_next(stream);
    const std::size_t done = transfer.bytes_done();
    CHECK(done >= before);
    CHECK((done == target.bytes() || (done + 100) % kSlot == 0 || done == 0));
    before = done;
  }
  CHECK(transfer.bytes_done() == target.bytes());
  CHECK((target.read() == Bytes(content.begin() + 100, content.begin() + 100 + 3 * kRing)));
  CHECK(test.copier.counters().copies_staged == 1);
  CHECK(test.copier.counters().bytes_copied == target.bytes());
}

TEST_CASE("a file may be closed and removed at once, and is closed when its copy is done" *
          needs_gates()) {
  FileCopyTest test(sim::Progress::manual);
  const Stream stream = test.stream();
  const Bytes content = pattern(5 * kRing, 1);
  write_file(test.path, content);
  Buffer target(test, Kind::device, content.size());
  const std::size_t before = open_descriptors();
  std::optional<File> file(File::open_to_read(test.path));
  const Transfer transfer = test.copier.start(target.data(), {*file, 0, content.size()}, stream);
  file.reset();
  std::filesystem::remove(test.path);
  CHECK(open_descriptors() > before);
  transfer.wait();
  CHECK(open_descriptors() == before);
  CHECK((target.read() == content));
}

TEST_CASE("a file copy of 0 bytes is a no-op that completes") {
  FileCopyTest test;
  const Stream stream = test.stream();
  write_file(test.path, pattern(10, 1));
  std::promise<bool> ended;
  const Transfer transfer = test.copier.start(
      nullptr, {File::open_to_read(test.path), 1000, 0}, stream,
      {.on_done = [&](std::exception_ptr failure) { ended.set_value(failure == nullptr); }});
  CHECK(transfer.is_done());
  CHECK(ended.get_future().get());
  CHECK(test.copier.counters().bytes_copied == 0);
}

TEST_CASE("keep_alive is held until a file copy is done, and on_done finds it done" *
          needs_gates()) {
  FileCopyTest test(sim::Progress::manual);
  const Stream stream = test.stream();
  const Bytes content = pattern(2 * kRing, 1);
  write_file(test.path, content);
  Buffer target(test, Kind::device, content.size());
  auto owner = std::make_shared<int>(1);
  const std::weak_ptr<int> watched = owner;
  std::promise<Bytes> seen;
  const Transfer transfer = test.copier.start(
      target.data(), {File::open_to_read(test.path), 0, content.size()}, stream,
      {.keep_alive = std::move(owner), .on_done = [&](std::exception_ptr failure) {
         CHECK(failure == nullptr);
         seen.set_value(target.read());
       }});
  CHECK_FALSE(watched.expired());
  transfer.wait();
  CHECK(watched.expired());
  stream.ref().sync();
  CHECK((seen.get_future().get() == content));
}

TEST_CASE("the destructor of a Runtime waits for pending file copies") {
  const TemporaryFolder folder;
  const std::string path = folder.path() / "weights";
  const Bytes content = pattern(20 * kRing, 2);
  {
    CopyTest test(machine(sim::Progress::eager), small_ring());
    const Stream stream = test.stream();
    Buffer source(test, Kind::device, content.size());
    source.write(content);
    test.copier.start({File::open_to_write(path), 0, content.size()}, source.data(), stream);
    stream.ref().sync();
  }
  CHECK((read_file(path) == content));
}

TEST_CASE("without gates or pinned memory the driver copies files") {
  sim::Config without_gates = machine(sim::Progress::eager);
  without_gates.faults = sim::FaultPlan::parse("cuStreamWaitValue32@1=not_supported");
  sim::Config without_pinned = machine(sim::Progress::manual);
  without_pinned.host_memory = 0;
  for (const sim::Config& config : {without_gates, without_pinned}) {
    FileCopyTest test(config, std::filesystem::temp_directory_path());
    const Stream stream = test.stream();
    const Bytes content = pattern(5_MiB + 5, 1);
    write_file(test.path, content);
    for (const FileCaching caching : kCachings) {
      if (!can_open(test.path, caching)) continue;
      test.check_read(content, 0, content.size(), caching, stream);
      test.check_read(content, 4095, 4_MiB + 2, caching, stream);
      test.check_write(content, 4097, 4_MiB - 1, caching, stream);
      write_file(test.path, content);
    }
    CHECK(test.copier.counters().copies_by_driver >= 6);
    CHECK(test.copier.counters().copies_staged == 0);
    Buffer source(test, Kind::device, 100);
    message_of<FileError>([&] {
      test.copier.start({File::open_to_write("/dev/full"), 0, 100}, source.data(), stream);
    });
    test.check_read(content, 0, 100, FileCaching::cached, stream);
  }
}

TEST_CASE("on a captured stream a copy of a file is refused, and the capture goes on") {
  FileCopyTest test;
  const Stream stream = test.stream();
  write_file(test.path, pattern(100, 1));
  Buffer memory(test, Kind::device, 100);
  begin_capture(stream);
  message_of<StreamCaptured>([&] {
    test.copier.start(memory.data(), {File::open_to_read(test.path), 0, 100}, stream);
  });
  message_of<StreamCaptured>([&] {
    test.copier.start({File::open_to_write(test.path), 0, 100}, memory.data(), stream);
  });
  test.copier.fill_async(memory.data(), 1, 100, stream);
  const CapturedGraph graph(stream);
  CHECK(graph.nodes() == 1);
}

}  // namespace file_copy_test
