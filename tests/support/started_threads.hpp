// SPDX-License-Identifier: Apache-2.0
// The test files that start threads. The setup of the thread sanitizer compiles and runs only
// these, because there is no race without a second thread. BERTH_TEST_THREADED lists their names,
// separated by commas. If it is set, main() fails after a case of another file started a thread.
#pragma once

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <dlfcn.h>
#include <iostream>
#include <new>
#include <pthread.h>
#include <string>
#include <sys/mman.h>

#include <doctest/doctest.h>

#include "support/refused_threads.hpp"

namespace berth::test {

/// By this process and its forked children.
inline std::atomic<std::uint64_t>& threads_started() {
  static auto* const count = [] {
    void* const shared = mmap(nullptr, sizeof(std::atomic<std::uint64_t>), PROT_READ | PROT_WRITE,
                              MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) std::abort();
    return new (shared) std::atomic<std::uint64_t>(0);
  }();
  return *count;
}

/// Whether a file that is not listed has started threads.
inline bool unlisted_thread_found = false;

class StartedThreads : public doctest::IReporter {
 public:
  explicit StartedThreads(const doctest::ContextOptions& /*options*/) {
    if (const char* const names = std::getenv("BERTH_TEST_THREADED")) {
      is_checked_ = true;
      listed_ = std::string(",") + names + ",";
    }
  }
  void test_case_start(const doctest::TestCaseData& data) override {
    data_ = &data;
    before_ = threads_started();
  }
  void test_case_end(const doctest::CurrentTestCaseStats& /*stats*/) override {
    if (!is_checked_ || threads_started() == before_) return;
    const std::string path = data_->m_file.c_str();
    const std::string name = path.substr(path.rfind('/') + 1);
    if (listed_.find("," + name + ",") != std::string::npos) return;
    unlisted_thread_found = true;
    std::cerr << path << ": \"" << data_->m_name
              << "\" starts threads: list the file in `threaded` of its suite in meson.build\n";
  }
  void report_query(const doctest::QueryData& /*data*/) override {}
  void test_run_start() override {}
  void test_run_end(const doctest::TestRunStats& /*stats*/) override {}
  void test_case_reenter(const doctest::TestCaseData& /*data*/) override {}
  void test_case_exception(const doctest::TestCaseException& /*exception*/) override {}
  void subcase_start(const doctest::SubcaseSignature& /*signature*/) override {}
  void subcase_end() override {}
  void log_assert(const doctest::AssertData& /*data*/) override {}
  void log_message(const doctest::MessageData& /*data*/) override {}
  void test_case_skipped(const doctest::TestCaseData& /*data*/) override {}

 private:
  bool is_checked_ = false;
  std::string listed_;
  const doctest::TestCaseData* data_ = nullptr;
  std::uint64_t before_ = 0;
};

}  // namespace berth::test

// A program's own pthread_create overrides the C library's in all of its libraries.
extern "C" int pthread_create(pthread_t* thread, const pthread_attr_t* attributes,
                              void* (*start)(void*), void* argument) noexcept {
  using Create = int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
  static const auto create = reinterpret_cast<Create>(dlsym(RTLD_NEXT, "pthread_create"));
  if (berth::test::threads_refused) return EAGAIN;
  ++berth::test::threads_started();
  return create(thread, attributes, start, argument);
}
