// SPDX-License-Identifier: Apache-2.0
// --reporters=lines: each case as JSON lines, the first before it begins, so that whoever reads
// them knows where a program has ended that crashed or was killed:
//   {"begin": CASE}
//   {"case": CASE, "outcome": "agrees", "differs" or "not applicable", "said": [...]}
// `said` is what came instead, or why the case does not apply.
#include <cstdio>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace {

using Json = nlohmann::ordered_json;

class CaseLines final : public doctest::IReporter {
 public:
  explicit CaseLines(const doctest::ContextOptions&) {}

  void test_case_start(const doctest::TestCaseData& data) override {
    name_ = data.m_name;
    said_.clear();
    print({{"begin", name_}});
  }
  void log_assert(const doctest::AssertData& data) override {
    if (!data.m_failed) return;
    said_.push_back(fmt::format("{}:{}: {}, but {}", file_of(data.m_file), data.m_line, data.m_expr,
                                data.m_threw ? data.m_exception.c_str() : data.m_decomp.c_str()));
  }
  void log_message(const doctest::MessageData& data) override {
    said_.emplace_back(data.m_string.c_str());
  }
  void test_case_exception(const doctest::TestCaseException& exception) override {
    said_.emplace_back(exception.error_string.c_str());
  }
  void test_case_end(const doctest::CurrentTestCaseStats& stats) override {
    const bool is_skipped = !said_.empty() && said_.front().starts_with("skipped");
    const char* const outcome = stats.failure_flags != 0 ? "differs"
                                : is_skipped             ? "not applicable"
                                                         : "agrees";
    Json line = {{"case", name_}, {"outcome", outcome}};
    if (!said_.empty()) line["said"] = said_;
    print(line);
  }

  void report_query(const doctest::QueryData&) override {}
  void test_run_start() override {}
  void test_run_end(const doctest::TestRunStats&) override {}
  void test_case_reenter(const doctest::TestCaseData&) override {}
  void subcase_start(const doctest::SubcaseSignature&) override {}
  void subcase_end() override {}
  void test_case_skipped(const doctest::TestCaseData&) override {}

 private:
  static std::string file_of(const std::string& path) { return path.substr(path.rfind('/') + 1); }
  static void print(const Json& line) {
    const std::string text = line.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
    std::fwrite(text.data(), 1, text.size(), stdout);
    std::fflush(stdout);
  }

  std::string name_;
  std::vector<std::string> said_;
};

REGISTER_REPORTER("lines", 0, CaseLines);

}  // namespace
