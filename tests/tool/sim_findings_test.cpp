// SPDX-License-Identifier: Apache-2.0
#include "tool/sim_findings.hpp"

#include <cstdio>
#include <fstream>
#include <string>
#include <unistd.h>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

namespace sim_findings_test {

using namespace berth::tool;

namespace {

std::string use(const char* call, int line, int bytes = 64) {
  const std::string frame =
      line == 0 ? "" : fmt::format(R"({{"file":"f.py","line":{},"function":"f"}})", line);
  return fmt::format(R"({{"call":"{}","does":"reads","bytes":{},"frames":[{}]}})", call, bytes,
                     frame);
}

std::string race(int seed, const std::string& first, const std::string& second,
                 const char* text = "race: a at 0x1234 (call 7)") {
  return fmt::format(
      R"({{"record":"finding","pid":{},"kind":"race","text":"{}","seed":{},"uses":[{}{}{}]}})",
      seed + 100, text, seed, first, second.empty() ? "" : ",", second);
}

SimFindings read(const std::vector<std::string>& lines) {
  std::string path = "/tmp/sim-findings-XXXXXX";
  close(mkstemp(path.data()));
  std::ofstream file(path);
  for (const std::string& line : lines) file << "\n" << line << "\n";
  file.close();
  SimFindings findings;
  findings.read(path);
  std::remove(path.c_str());
  return findings;
}

}  // namespace

TEST_CASE("the same two uses are one finding, whichever came first") {
  const SimFindings findings =
      read({race(3, use("a", 1), use("b", 2)), race(1, use("b", 2), use("a", 1))});
  REQUIRE(findings.all().size() == 1);
  CHECK(findings.all()[0].seeds == std::set<std::uint64_t>{1, 3});
  CHECK(findings.all()[0].pids == std::set<int>{101, 103});
}

TEST_CASE("another place, another call or another kind is another finding") {
  CHECK(read({race(1, use("a", 1), use("b", 2)), race(1, use("a", 1), use("b", 3))}).all().size() ==
        2);
  CHECK(read({race(1, use("a", 1), use("b", 2)), race(1, use("c", 1), use("b", 2))}).all().size() ==
        2);
}

TEST_CASE("the size distinguishes uses only without a call site") {
  CHECK(read({race(1, use("a", 1, 8), use("b", 2)), race(1, use("a", 1, 9), use("b", 2))})
            .all()
            .size() == 1);
  CHECK(read({race(1, use("a", 0, 8), use("b", 0)), race(1, use("a", 0, 9), use("b", 0))})
            .all()
            .size() == 2);
}

TEST_CASE("findings without uses are compared by the text of their mistake") {
  const auto stall = [](int pid, const char* text, const char* mistake) {
    return fmt::format(R"({{"record":"finding","pid":{},"kind":"stall","text":"{}","seed":1,)"
                       R"("mistake":"{}","uses":[]}})",
                       pid, text, mistake);
  };
  CHECK(read({stall(1, "a at 0x12", "a at"), stall(2, "a at 0xab", "a at")}).all().size() == 1);
  CHECK(read({stall(1, "a", "a"), stall(1, "b", "b")}).all().size() == 2);
}

TEST_CASE("other records are counted, and incomplete ones are reported") {
  const SimFindings findings = read(
      {R"({"record":"process","pid":1,"program":"a"})",
       R"({"record":"process","pid":2,"program":"b"})", R"({"record":"more","pid":1,"count":1})",
       R"({"record":"more","pid":1,"count":4})", R"({"record":"more","pid":2,"count":2})",
       R"({"record":"inner_command","pid":9})", R"({"record":"version","pid":9,"version":12040})",
       R"({"record":"find)", R"({"record":"finding"})", "[]"});
  CHECK(findings.processes() == 2);
  CHECK(findings.cut_short() == 2);
  CHECK(findings.dropped() == 6);
  CHECK(findings.inner_commands() == 1);
  CHECK(findings.version_asked() == 12040);
  CHECK(findings.unfinished() == 3);
  CHECK(findings.nvidia_runtime().empty());
  CHECK(findings.all().empty());
  CHECK(read({R"({"record":"private_table","pid":1,"module":"a"})"}).nvidia_runtime() == "a");
}

TEST_CASE("skipped launches are summed over processes, exactly if each has ended") {
  SimFindings findings = read({R"({"record":"skipped_launches","pid":1,"count":1,"final":false})",
                               R"({"record":"skipped_launches","pid":1,"count":3,"final":true})",
                               R"({"record":"skipped_launches","pid":2,"count":4,"final":true})"});
  CHECK(findings.skipped_launches().count == 7);
  CHECK(findings.skipped_launches().is_exact);
  const SimFindings killed =
      read({R"({"record":"skipped_launches","pid":1,"count":2,"final":false})",
            R"({"record":"skipped_launches","pid":2,"count":1,"final":true})"});
  CHECK(killed.skipped_launches().count == 3);
  CHECK_FALSE(killed.skipped_launches().is_exact);
}

TEST_CASE("call sites are Python frames, or otherwise native frames without startup code") {
  const CallFrame native{"", 0, "copy", "/lib/libfast.so", 0x10};
  const CallFrame start{"", 0, "__libc_start_main", "/lib/libc.so.6", 0x20};
  const CallFrame python{"/f.py", 3, "f", "", 0};
  CHECK(call_site_lines({"a", "reads", 1, {native, start}}) ==
        std::vector<std::string>{"libfast.so+0x10 (copy)"});
  CHECK(call_site_lines({"a", "reads", 1, {python, native, start}}) ==
        std::vector<std::string>{"/f.py:3 in f"});
  CHECK(call_site_lines({"a", "reads", 1, std::vector<CallFrame>(9, python)}).size() == 4);
}

TEST_CASE("behind frames of the C++ library and of nvcc is the nearest of the program") {
  const auto native = [](const char* file, int line) {
    return CallFrame{file, line, "f", "/program", 0x10};
  };
  const CallFrame invoke = native("/usr/include/c++/12/bits/invoke.h", 61);
  const CallFrame thread = native("/usr/include/c++/12/bits/std_thread.h", 8);
  const CallFrame stub = native("/tmp/tmpxft_0000_7-6_p.cudafe1.stub.c", 13);
  const CallFrame header = native("/usr/local/cuda/include/cuda_runtime.h", 216);
  const CallFrame own = native("/src/p.cu", 20);
  const SimUse use{"a", "reads", 1, {stub, header, invoke, thread, thread, own, own}};
  CHECK(call_site_lines(use).size() == 5);
  CHECK(call_site_lines(use).back() == "/src/p.cu:20 in f");
  CHECK(nearest_place(use) == "/src/p.cu:20 in f");
  CHECK(nearest_place({"a", "reads", 1, {invoke, thread}}) ==
        "/usr/include/c++/12/bits/invoke.h:61 in f");
  CHECK(nearest_place({"a", "reads", 1, {}}).empty());
}

}  // namespace sim_findings_test
