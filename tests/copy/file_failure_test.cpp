// SPDX-License-Identifier: Apache-2.0
// Failures of files: only the file's own copy fails, and the next copy succeeds.
#include <csignal>
#include <filesystem>
#include <future>
#include <limits>
#include <memory>
#include <string>
#include <sys/resource.h>
#include <thread>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "copy/file_fixture.hpp"

namespace file_failure_test {

using namespace berth;
using namespace berth::test;

namespace {

constexpr std::size_t kSlot = 64_KiB;
constexpr std::size_t kSlots = 4;
constexpr std::size_t kBytes = 10 * kSlot;
/// What threads can read ahead of a device that stands still.
constexpr std::size_t kAheadMax = kSlots / 2 * kSlot;

sim::Config standing_still() {
  sim::Config config;
  config.devices = 2;
  config.progress = sim::Progress::manual;
  return config;
}

struct FileFailureTest : CopyTest {
  FileFailureTest()
      : CopyTest(standing_still(),
                 {.staging_slot_bytes = kSlot, .staging_slots = kSlots, .file_workers = 2}) {
    write_file(path, content);
  }

  [[nodiscard]] Transfer start_read(const Buffer& target) {
    return copier.start(target.data(), {File::open_to_read(path), 0, target.bytes()}, own);
  }
  /// A copy of the file as it should be, and one of memory.
  void check_next_copies_work() {
    write_file(path, content);
    Buffer memory(*this, Kind::device, kBytes);
    start_read(memory).wait();
    CHECK((memory.read() == content));
    copier.copy(memory.data(), content.data(), 100, own);
    copier.start({File::open_to_write(path), 0, kBytes}, memory.data(), own).wait();
    CHECK((read_file(path) == content));
  }

  const TemporaryFolder folder;
  const std::string path = folder.path() / "weights";
  const Bytes content = pattern(kBytes, 1);
  const Stream own = stream();
};

/// No file of this process grows beyond `bytes` meanwhile.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(std::size_t bytes) {
    REQUIRE(getrlimit(RLIMIT_FSIZE, &before_) == 0);
    const rlimit limit{bytes, before_.rlim_max};
    REQUIRE(setrlimit(RLIMIT_FSIZE, &limit) == 0);
  }
  ~FileSizeLimit() {
    setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;

 private:
  rlimit before_{};
  void (*const handler_)(int) = std::signal(SIGXFSZ, SIG_IGN);
};

}  // namespace

TEST_CASE_FIXTURE(FileFailureTest, "a range that the file does not have is refused at once") {
  Buffer memory(*this, Kind::device, kBytes);
  memory.write(Bytes(kBytes, 7));
  const File file = File::open_to_read(path);
  constexpr auto kMost = std::numeric_limits<std::uint64_t>::max();
  const auto refusal = [&](std::uint64_t offset, std::size_t bytes) {
    bool called = false;
    const std::string message = message_of<FileError>([&] {
      copier.start(memory.data(), {file, offset, bytes}, own,
                   {.on_done = [&](std::exception_ptr) { called = true; }});
    });
    CHECK_FALSE(called);
    CHECK(contains(message, path));
    return message;
  };
  CHECK(contains(refusal(1, kBytes), "ends at"));
  CHECK(contains(refusal(kBytes, 1), "ends at"));
  CHECK(contains(refusal(kMost - 10, 100), "no file goes beyond"));
  message_of<FileError>([&] {
    copier.start({File::open_to_write(path), kMost - 10, 100}, memory.data(), own);
  });
  own.ref().sync();
  CHECK((memory.read() == Bytes(kBytes, 7)));
  CHECK((read_file(path) == content));
  CHECK(copier.counters().bytes_copied == 0);
  check_next_copies_work();
}

TEST_CASE_FIXTURE(FileFailureTest, "host memory and files opened in the wrong mode are refused") {
  const File source = File::open_to_read(path);
  const File target = File::open_to_write(path);
  for (const Kind kind : {Kind::pageable, Kind::pinned, Kind::registered}) {
    CAPTURE(name_of(kind));
    Buffer host(*this, kind, 100);
    CHECK(contains(message_of<InvalidArgument>([&] {
                     copier.start(host.data(), {source, 0, 100}, own);
                   }),
                   "File::read()"));
    CHECK(contains(message_of<InvalidArgument>([&] {
                     copier.start({target, 0, 100}, host.data(), own);
                   }),
                   "File::write()"));
  }
  Buffer memory(*this, Kind::device, 100);
  Buffer peer(*this, Kind::peer, 100);
  message_of<InvalidArgument>([&] { copier.start(memory.data(), {target, 0, 100}, own); });
  message_of<InvalidArgument>([&] { copier.start({source, 0, 100}, memory.data(), own); });
  message_of<InvalidArgument>([&] { copier.start(nullptr, {source, 0, 100}, own); });
  CHECK(contains(message_of<InvalidArgument>([&] {
                   copier.start(peer.data(), {source, 0, 100}, own);
                 }),
                 "cuda:1"));
  CHECK((read_file(path) == content));
  check_next_copies_work();
}

TEST_CASE_FIXTURE(FileFailureTest,
                  "truncating a file during its copy fails that copy only" * needs_gates()) {
  for (const FileCaching caching : kCachings) {
    if (!can_open(path, caching)) continue;
    for (const std::size_t left : {kAheadMax + 1000, kBytes - 100}) {
      CAPTURE(int(caching));
      CAPTURE(left);
      write_file(path, content);
      evict(path);
      const std::string whole = folder.path() / "whole";
      write_file(whole, content);
      const Stream second = stream();
      Buffer target(*this, Kind::device, kBytes);
      Buffer other(*this, Kind::device, kBytes);
      std::promise<std::exception_ptr> told;
      const Transfer cut =
          copier.start(target.data(), {File::open_to_read(path, caching), 0, kBytes}, own,
                       {.on_done = [&](std::exception_ptr failure) { told.set_value(failure); }});
      const Transfer good =
          copier.start(other.data(), {File::open_to_read(whole), 0, kBytes}, second);
      log.submit(own, "after");
      std::filesystem::resize_file(path, left);
      const std::string message = message_of<FileError>([&] { cut.wait(); });
      CHECK(contains(message, "ends at " + std::to_string(left) + " B"));
      CHECK(contains(message, path));
      own.ref().sync();
      CHECK(log.is_done("after"));
      CHECK_THROWS_AS(std::rethrow_exception(told.get_future().get()), FileError);
      good.wait();
      CHECK((other.read() == content));
      CHECK(target.guards_hold());
      check_next_copies_work();
    }
  }
}

TEST_CASE_FIXTURE(FileFailureTest, "a file that is removed during its copy is read to its end") {
  Buffer target(*this, Kind::device, kBytes);
  const Transfer transfer = start_read(target);
  std::filesystem::remove(path);
  write_file(path, Bytes(kBytes, 0));  // another one of that name
  transfer.wait();
  CHECK((target.read() == content));
}

TEST_CASE_FIXTURE(FileFailureTest,
                  "a full disk ends the copy to it, and no other" * needs_gates()) {
  const std::string good_path = folder.path() / "good";
  const Stream second = stream();
  Buffer source(*this, Kind::device, kBytes);
  source.write(content);
  const Transfer full =
      copier.start({File::open_to_write("/dev/full"), 0, kBytes}, source.data(), own);
  const Transfer good =
      copier.start({File::open_to_write(good_path), 0, kBytes}, source.data(), second);
  log.submit(own, "after");
  const std::string message = message_of<FileError>([&] { full.wait(); });
  CHECK(contains(message, "No space left"));
  CHECK(contains(message, "/dev/full"));
  good.wait();
  CHECK((read_file(good_path) == content));
  own.ref().sync();
  CHECK(log.is_done("after"));
  check_next_copies_work();
}

TEST_CASE_FIXTURE(FileFailureTest,
                  "a copy that exceeds the file size limit keeps what was written before" *
                      needs_gates()) {
  const std::string bounded = folder.path() / "bounded";
  Buffer source(*this, Kind::device, kBytes);
  source.write(content);
  for (const FileCaching caching : kCachings) {
    CAPTURE(int(caching));
    if (!can_open(path, caching)) continue;
    write_file(bounded, {});
    {
      const FileSizeLimit limit(3 * kSlot + 100);
      const Transfer transfer =
          copier.start({File::open_to_write(bounded, caching), 0, kBytes}, source.data(), own);
      message_of<FileError>([&] { transfer.wait(); });
    }
    const Bytes written = read_file(bounded);
    CHECK(written.size() <= 3 * kSlot + 100);
    CHECK(written.size() >= kSlot);  // what the first slots had
    CHECK(std::equal(written.begin(), written.begin() + kSlot, content.begin()));
    check_next_copies_work();
  }
}

TEST_CASE_FIXTURE(FileFailureTest,
                  "a copy of a file that is cancelled says so, and its stream goes on" *
                      needs_gates()) {
  Buffer target(*this, Kind::device, kBytes);
  Transfer transfer = start_read(target);
  log.submit(own, "after");
  transfer.cancel();
  message_of<Cancelled>([&] { transfer.wait(); });
  own.ref().sync();
  CHECK(log.is_done("after"));
  check_next_copies_work();
}

TEST_CASE_FIXTURE(
    FileFailureTest,
    "a failure that the program does not observe is reported once, with stream and bytes" *
        needs_gates()) {
  errors_expected = true;
  Buffer target(*this, Kind::device, kBytes);
  SUBCASE("a Transfer is dropped") {
    static_cast<void>(start_read(target));
  }
  SUBCASE("a Transfer is detached") {
    start_read(target).detach();
  }
  SUBCASE("a Transfer is queried and then dropped") {
    const Transfer transfer = start_read(target);
    CHECK_FALSE(transfer.is_done());
  }
  SUBCASE("a Transfer has keep_alive") {
    copier.start(target.data(), {File::open_to_read(path), 0, kBytes}, own,
                 {.keep_alive = std::make_shared<int>(1)});
  }
  SUBCASE("a Transfer is dropped after its end") {
    const Transfer transfer = start_read(target);
    std::filesystem::resize_file(path, 3 * kSlot);
    own.ref().sync();
    while (!transfer.is_done()) std::this_thread::yield();
    CHECK(reports.all().empty());
  }
  SUBCASE("a Transfer is copied and then dropped") {
    const Transfer transfer = start_read(target);
    const Transfer copy = transfer;
    CHECK_FALSE(copy.is_done());
  }
  std::filesystem::resize_file(path, 3 * kSlot);
  own.ref().sync();
  while (reports.all().empty()) std::this_thread::yield();
  check_next_copies_work();
  REQUIRE(reports.all().size() == 1);
  CHECK(reports.all()[0].severity == Severity::error);
  CHECK(reports.mention("cuda:0"));
  CHECK(reports.mention(fmt::format("{}", fmt::ptr(own.ref().native()))));
  CHECK(reports.mention(fmt::format("{} B", kBytes)));
  CHECK(reports.mention("ends at"));
}

TEST_CASE_FIXTURE(FileFailureTest,
                  "a failure that the program has observed is not reported" * needs_gates()) {
  Buffer target(*this, Kind::device, kBytes);
  const auto fail = [&] {
    std::filesystem::resize_file(path, 3 * kSlot);
    own.ref().sync();
  };
  std::promise<bool> told;
  SUBCASE("the program waits") {
    const Transfer transfer = start_read(target);
    fail();
    message_of<FileError>([&] { transfer.wait(); });
  }
  SUBCASE("the program queries") {
    const Transfer transfer = start_read(target);
    fail();
    while (!transfer.is_done()) std::this_thread::yield();
    CHECK(transfer.failure() != nullptr);
  }
  SUBCASE("the program has on_done") {
    copier.start(target.data(), {File::open_to_read(path), 0, kBytes}, own,
                 {.on_done = [&](std::exception_ptr failure) { told.set_value(!!failure); }});
    fail();
    CHECK(told.get_future().get());
  }
  SUBCASE("the program cancels") {
    start_read(target).cancel();
    own.ref().sync();
  }
  check_next_copies_work();
  CHECK(reports.all().empty());
}

TEST_CASE_FIXTURE(FileFailureTest, "a file name with a line break is escaped in error messages") {
  const std::string name = folder.path() / "two\nlines";
  CHECK(contains(message_of<FileError>([&] { static_cast<void>(File::open_to_read(name)); }),
                 "two\\x0alines"));
}

TEST_CASE_FIXTURE(FileFailureTest,
                  "progress does not count bytes beyond the end of a truncated file" *
                      needs_gates()) {
  Buffer memory(*this, Kind::device, kBytes);
  log.submit(own, "kernel");
  const Transfer transfer = start_read(memory);
  std::filesystem::resize_file(path, kAheadMax / 4);
  message_of<FileError>([&] { transfer.wait(); });
  CHECK(transfer.bytes_done() <= kAheadMax);
}

}  // namespace file_failure_test
