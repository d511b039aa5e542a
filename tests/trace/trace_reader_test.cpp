// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <unistd.h>

#include <doctest/doctest.h>

#include "berth/error.hpp"
#include "berth/trace.hpp"

#include "support/errors.hpp"
#include "trace/compress.hpp"
#include "trace/snapshot_samples.hpp"
#include "trace/trace_text.hpp"

namespace trace_reader_test {

using namespace berth;
using namespace berth::test;

namespace {

const std::string kSmallTrace = std::string(kColumnLine) + "alloc,1,2,0,0,0\nfree,1,2,0,0,1\n";

/// A file of that content, gone with the object.
class TemporaryFile {
 public:
  explicit TemporaryFile(std::string_view content)
      : path_(std::filesystem::temp_directory_path() /
              ("berth_trace_reader_test_" + std::to_string(::getpid()))) {
    std::ofstream(path_, std::ios::binary) << content;
  }
  ~TemporaryFile() { std::remove(path_.c_str()); }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  [[nodiscard]] std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

}  // namespace

TEST_CASE("a file is read by content, plain and compressed") {
  for (const std::string& content : {kSmallTrace, gzip(kSmallTrace)}) {
    const TemporaryFile file(content);
    const Trace trace = read_trace(file.path());
    CHECK(rows_of(trace) == "alloc,1,2,0,0,0\nfree,1,2,0,0,1\n");
    CHECK(trace.name == file.path());
  }
}

TEST_CASE("errors about a file contain its name") {
  const TemporaryFile file("x");
  CHECK(contains(message_of<InvalidArgument>([&] { return read_trace(file.path()); }),
                 file.path() + ":1: \"x\" is no line"));
}

TEST_CASE("a file that cannot be read is refused with the system's reason") {
  CHECK(message_of<InvalidArgument>([] { return read_trace("/no/such/file"); }) ==
        "/no/such/file: cannot be read: No such file or directory; accepted: a readable "
        "regular file");
  CHECK(contains(message_of<InvalidArgument>(
                     [] { return read_trace(std::filesystem::temp_directory_path()); }),
                 "cannot be read: Is a directory"));
}

TEST_CASE("compressed snapshots and traces are recognized by their content") {
  const std::string expected = rows_of(parse_trace("x", kSnapshotJson));
  for (const std::string_view pickle : kSnapshotPickles)
    CHECK(rows_of(parse_trace("x", gzip(pickle))) == expected);
  CHECK(rows_of(parse_trace("x", gzip(kSnapshotJson))) == expected);
}

TEST_CASE("empty content is refused with the accepted formats") {
  for (const std::string& content : {std::string(), gzip("")}) {
    CHECK(message_of<InvalidArgument>([&] { return parse_trace("x", content); }) ==
          "x: empty; accepted: berth's own trace, or a PyTorch memory snapshot as pickle or JSON, "
          "each plain or compressed by gzip");
  }
}

TEST_CASE("unknown content is refused as the format that it resembles") {
  CHECK(contains(message_of<InvalidArgument>([] { return parse_trace("x", "PK\x03\x04"); }),
                 "x:1: \"PK\\x03\\x04\" is no line of a trace's header"));
  CHECK(contains(message_of<InvalidArgument>([] { return parse_trace("x", "\x80\x02"); }),
                 "x: byte 2: cut off"));
  CHECK(contains(message_of<InvalidArgument>([] { return parse_trace("x", " {"); }),
                 "no valid JSON"));
  CHECK(contains(message_of<InvalidArgument>([] { return parse_trace("x", "\x1f\x8b"); }),
                 "cut off"));
  // Compressed twice: what comes out is gzip data, which is no trace.
  CHECK(contains(message_of<InvalidArgument>([] { return parse_trace("x", gzip(gzip("a"))); }),
                 "is no line of a trace's header"));
}

}  // namespace trace_reader_test
