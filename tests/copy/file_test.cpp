// SPDX-License-Identifier: Apache-2.0
// Files without copies: which can be opened, which are refused and why, and reads to host memory.
#include "berth/file.hpp"

#include <cstdint>
#include <filesystem>
#include <limits>
#include <optional>
#include <string>
#include <sys/stat.h>
#include <unistd.h>

#include <doctest/doctest.h>

#include "copy/file_fixture.hpp"
#include "support/child_process.hpp"

namespace file_test {

using namespace berth;
using namespace berth::test;

namespace {

struct FileTest {
  const TemporaryFolder folder;
  const std::string path = folder.path() / "weights";
};

}  // namespace

TEST_CASE_FIXTURE(FileTest, "host memory is read from a file, and written, at any offset") {
  const Bytes content = pattern(100'000, 1);
  for (const FileCaching caching : kCachings) {
    CAPTURE(int(caching));
    write_file(path, content);
    if (!can_open(path, caching)) continue;
    const File source = File::open_to_read(path, caching);
    CHECK(source.path() == path);
    CHECK(source.size() == content.size());
    for (const std::size_t offset : {0, 1, 511, 4096, 99'999}) {
      Bytes read(std::min<std::size_t>(5000, content.size() - offset));
      source.read(bytes_at(read.data(), read.size()), offset);
      CHECK(std::equal(read.begin(), read.end(), content.begin() + std::ptrdiff_t(offset)));
    }
    const File target = File::open_to_write(path, caching);
    target.write(bytes_at(content.data() + 10, 5000), 33);
    target.write(bytes_at(content.data(), 7), 100'010);
    target.sync();
    Bytes expected = content;
    std::copy_n(content.begin() + 10, 5000, expected.begin() + 33);
    expected.resize(100'010);
    expected.insert(expected.end(), content.begin(), content.begin() + 7);
    CHECK((read_file(path) == expected));
    CHECK(source.size() == 100'017);
  }
}

TEST_CASE_FIXTURE(FileTest, "opening to write creates a file or keeps its contents") {
  File::open_to_write(path).write(bytes_at("abc", 3), 0);
  File::open_to_write(path).write(bytes_at("X", 1), 1);
  CHECK((read_file(path) == Bytes{'a', 'X', 'c'}));
}

TEST_CASE_FIXTURE(FileTest,
                  "opening a path that is no regular file is refused with the system's reason") {
  const auto refusal = [](const std::string& name) {
    const std::string message =
        message_of<FileError>([&] { static_cast<void>(File::open_to_read(name)); });
    CHECK(contains(message, name));
    return message;
  };
  CHECK(contains(refusal(path), "No such file"));
  CHECK(contains(refusal(path + "/deeper"), "No such file"));
  CHECK(contains(refusal(folder.path()), "directory"));
  message_of<FileError>([&] { static_cast<void>(File::open_to_write(folder.path())); });
  REQUIRE(mkfifo(path.c_str(), 0600) == 0);
  CHECK(contains(refusal(path), "no offsets"));  // and nobody waits for its other end
  CHECK(contains(message_of<FileError>([&] { static_cast<void>(File::open_to_write(path)); }),
                 "to write: it has no offsets; accepted: a regular file, or a block device"));
  const std::string with_null = path + '\0' + "x";
  CHECK(contains(
      message_of<InvalidArgument>([&] { static_cast<void>(File::open_to_read(with_null)); }),
      "null"));
}

TEST_CASE_FIXTURE(FileTest, "opening a file without permission is refused") {
  if (geteuid() == 0) {
    MESSAGE("skipped: root may do everything");
    return;
  }
  write_file(path, pattern(10, 1));
  REQUIRE(chmod(path.c_str(), 0) == 0);
  CHECK(contains(message_of<FileError>([&] { static_cast<void>(File::open_to_read(path)); }),
                 "Permission"));
  CHECK(contains(message_of<FileError>([&] { static_cast<void>(File::open_to_write(path)); }),
                 "Permission"));
}

TEST_CASE_FIXTURE(FileTest,
                  "a range that the file does not have is refused, and says where it ends") {
  write_file(path, pattern(1000, 1));
  const File file = File::open_to_read(path);
  Bytes target(2000, 7);
  const auto refusal = [&](std::size_t bytes, std::uint64_t offset) {
    const std::string message =
        message_of<FileError>([&] { file.read(bytes_at(target.data(), bytes), offset); });
    CHECK(contains(message, path));
    CHECK(contains(message, std::to_string(bytes) + " B at offset " + std::to_string(offset)));
    return message;
  };
  CHECK(contains(refusal(1001, 0), "ends at 1000 B"));
  CHECK(contains(refusal(1, 1000), "ends at 1000 B"));
  constexpr auto kMost = std::numeric_limits<std::uint64_t>::max();
  CHECK(contains(refusal(1, kMost), "no file goes beyond"));
  CHECK(contains(refusal(100, kMost - 50), "no file goes beyond"));
  CHECK(contains(refusal(kMost, 10), "no file goes beyond"));
  CHECK((target == Bytes(2000, 7)));
  file.read(bytes_at(target.data(), 1000), 0);
  file.read(bytes_at(static_cast<void*>(nullptr), 0), kMost);  // 0 bytes
  message_of<InvalidArgument>([&] { file.read(bytes_at(static_cast<void*>(nullptr), 1), 0); });
}

TEST_CASE_FIXTURE(FileTest, "a file opened to read cannot be written, and vice versa") {
  write_file(path, pattern(10, 1));
  Bytes memory(10);
  CHECK(contains(message_of<InvalidArgument>(
                     [&] { File::open_to_read(path).write(bytes_at(memory.data(), 10), 0); }),
                 "open_to_write"));
  CHECK(contains(message_of<InvalidArgument>(
                     [&] { File::open_to_write(path).read(bytes_at(memory.data(), 10), 0); }),
                 "open_to_read"));
}

TEST_CASE_FIXTURE(FileTest,
                  "a file is closed with its last handle and is readable after its removal") {
  write_file(path, pattern(10, 1));
  const std::size_t before = open_descriptors();
  {
    std::optional<File> first(File::open_to_read(path));
    const File second = *first;
    first.reset();
    std::filesystem::remove(path);
    Bytes memory(10);
    second.read(bytes_at(memory.data(), 10), 0);
    CHECK((memory == pattern(10, 1)));
    CHECK(open_descriptors() > before);
  }
  CHECK(open_descriptors() == before);
}

TEST_CASE_FIXTURE(FileTest, "a character device can be opened to write only") {
  CHECK(contains(message_of<FileError>([] { static_cast<void>(File::open_to_read("/dev/zero")); }),
                 "/dev/zero to read: it is a character device"));
  File::open_to_write("/dev/null").write(bytes_at(path.data(), path.size()), 1000);
}

TEST_CASE_FIXTURE(FileTest, "an invalid value of FileCaching is refused") {
  write_file(path, pattern(10, 1));
  CHECK(contains(message_of<InvalidArgument>(
                     [&] { static_cast<void>(File::open_to_read(path, FileCaching(3))); }),
                 "FileCaching is 3; accepted: automatic, cached, direct"));
}

TEST_CASE_FIXTURE(FileTest, "a full disk is reported as such") {
  const File full = File::open_to_write("/dev/full");
  CHECK(
      contains(message_of<FileError>([&] { full.write(bytes_at("abc", 3), 0); }), "No space left"));
}

TEST_CASE_FIXTURE(FileTest, "a forked child reads a file") {
  write_file(path, pattern(1000, 1));
  const File file = File::open_to_read(path);
  CHECK(exit_code_of([&] {
          Bytes memory(1000);
          file.read(bytes_at(memory.data(), 1000), 0);
          _exit(memory == pattern(1000, 1) ? 0 : 1);
          return 2;
        }) == 0);
}

}  // namespace file_test
