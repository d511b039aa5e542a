// SPDX-License-Identifier: Apache-2.0
// Traces that are made to consume memory or time, or to wait without end.
#include <cstdint>
#include <fstream>
#include <string>
#include <string_view>
#include <sys/stat.h>
#include <unistd.h>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "berth/bytes.hpp"
#include "berth/error.hpp"
#include "berth/trace.hpp"

#include "support/errors.hpp"
#include "support/temporary_folder.hpp"
#include "trace/compress.hpp"
#include "trace/peak_memory.hpp"
#include "trace/trace_text.hpp"

namespace trace_limits_test {

using namespace berth;
using namespace berth::test;

namespace {

constexpr std::uint64_t kLimit = 8_MiB;
/// Buffers of a fixed size, and the message.
constexpr std::uint64_t kFixed = 512_KiB;

/// The message with which `content` is refused under the limit; the peak of memory must hold it.
/// `untouched` bytes may be reserved beyond it, and never written.
std::string refusal_within_limit(std::string_view content, std::uint64_t untouched = 0) {
  const PeakMemory peak;
  const std::string message = message_of<InvalidArgument>(
      [&] { return parse_trace("x", content, {.host_bytes_max = kLimit}); });
  CHECK(peak.bytes() <= kLimit + kFixed + untouched);
  return message;
}

std::string rows(int count) {
  std::string text(kColumnLine);
  for (int i = 0; i < count; ++i) text += fmt::format("alloc,{},1,0,0,0\n", i);
  return text;
}

std::string little_endian(std::size_t number, int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i) text += static_cast<char>(number >> 8 * i);
  return text;
}

/// A pickle of a snapshot whose only list of events is `count` times the same dictionary, which has
/// `more` keys beside those that are needed.
std::string shared_event(int count, int more) {
  std::string pickle = "\x80\x02}X" + little_endian(13, 4) + "device_traces]](";
  pickle += "}(X" + little_endian(6, 4) + "actionX" + little_endian(8, 4) + "snapshot";
  for (int i = 0; i < more; ++i) {
    const std::string key = fmt::format("k{}", i);
    pickle += "X" + little_endian(key.size(), 4) + key + "N";
  }
  pickle += "uq";
  pickle += '\0';
  for (int i = 1; i < count; ++i) pickle += std::string("h\0", 2);
  return pickle + "eas.";
}

}  // namespace

TEST_CASE("rows that need more host memory than the limit are refused with the row") {
  const std::string message = refusal_within_limit(rows(100'000));
  CHECK(contains(message, "of host memory beside the file's content; accepted: a smaller trace"));
  // 100,000 rows are 2 MB of text, and 40 bytes of trace and at least 64 of tables each.
  const std::size_t line = std::stoul(message.substr(2));
  CHECK(line > 30'000);
  CHECK(line < 70'000);
  CHECK(parse_trace("x", rows(30'000), {.host_bytes_max = kLimit}).events.size() == 30'000);
}

TEST_CASE("lines of a header count towards the limit too") {
  std::string content;
  for (int i = 0; i < 100'000; ++i) content += "#\n";
  CHECK(contains(refusal_within_limit(content), "of host memory"));
}

TEST_CASE("compressed rows are refused before they are kept, or with their row") {
  const std::string content = rows(1'000'000);
  REQUIRE(content.size() > kLimit);
  CHECK(contains(refusal_within_limit(gzip(content)), "x: after decompression the content is"));
  const std::uint64_t reserved_rows = 100'000 * sizeof(TraceEvent);
  CHECK(contains(refusal_within_limit(gzip(rows(100'000)), reserved_rows), "of host memory"));
}

TEST_CASE("values of JSON and of pickles count towards the limit") {
  std::string json = R"({"device_traces": [[)";
  for (int i = 0; i < 400'000; ++i) json += "0,";
  CHECK(contains(refusal_within_limit(json + "0]]}"), "value "));
  CHECK(contains(refusal_within_limit("\x80\x02](" + std::string(400'000, 'N') + "e."), "byte "));
  CHECK(contains(refusal_within_limit("\x80\x02](" + std::string(100'000, '}') + "e."), "byte "));
}

TEST_CASE("texts of JSON count towards the limit") {
  std::string json = "[";
  for (int i = 0; i < 60'000; ++i) json += fmt::format("\"{:040}\",", i);
  CHECK(contains(refusal_within_limit(json + "0]"), "value "));
}

TEST_CASE("the memo of a pickle counts towards the limit") {
  std::string pickle = "\x80\x02X" + little_endian(1'000'000, 4) + std::string(1'000'000, ' ');
  pickle += "r" + little_endian(900'000, 4) + ".";
  CHECK(contains(refusal_within_limit(pickle), "of host memory"));
}

TEST_CASE("one text of JSON that is very long is refused before it is copied") {
  for (const std::string& token :
       {'"' + std::string(2'000'000, 'a') + '"', std::string(2'000'000, '1')})
    CHECK(contains(refusal_within_limit("[" + token + "]"), "of more than 1 MiB"));
  const std::string escapes = [] {
    std::string text;
    for (int i = 0; i < 1'200'000; ++i) text += "\\\"";
    return text;
  }();
  CHECK(contains(refusal_within_limit("[\"" + escapes + "\"]"), "of more than 1 MiB"));
}

TEST_CASE("shared events count towards the limit each time") {
  const std::string message = refusal_within_limit(shared_event(30'000, 0));
  CHECK(contains(message, "x: device_traces[0]["));
  CHECK(contains(message, "of host memory"));
}

TEST_CASE("events may share a small dictionary, but not a large one") {
  CHECK(parse_trace("x", shared_event(1000, 3)).events.size() == 1000);
  CHECK(parse_trace("x", shared_event(1, 3000)).events.size() == 1);
  CHECK(contains(
      message_of<InvalidArgument>([] { return parse_trace("x", shared_event(1000, 3000)); }),
      "lists or dictionaries that stand in several places"));
}

TEST_CASE("a pipe is rejected without waiting for a writer") {
  const TemporaryFolder folder;
  const std::string path = (folder.path() / "pipe").string();
  REQUIRE(mkfifo(path.c_str(), 0600) == 0);
  CHECK(message_of<InvalidArgument>([&] { return read_trace(path); }) ==
        path + ": cannot be read: Is a pipe; accepted: a readable regular file");
  CHECK(
      contains(message_of<InvalidArgument>([] { return read_trace("/dev/zero"); }), "Is a device"));
}

TEST_CASE("a file larger than the limit is refused unread, and a file in /proc is read") {
  const TemporaryFolder folder;
  const std::string path = (folder.path() / "large").string();
  std::ofstream(path) << "x";
  REQUIRE(truncate(path.c_str(), off_t{1} << 40) == 0);
  const PeakMemory peak;
  CHECK(contains(message_of<InvalidArgument>([&] { return read_trace(path); }),
                 "the content is larger than 4.00 GiB"));
  CHECK(peak.bytes() < kFixed);
  CHECK(contains(message_of<InvalidArgument>([] { return read_trace("/proc/self/status"); }),
                 "is no line of a trace's header"));
}

}  // namespace trace_limits_test
