// SPDX-License-Identifier: Apache-2.0
#include "copy/transfer/composite_transfer.hpp"

#include <cstddef>
#include <exception>
#include <memory>
#include <stdexcept>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

namespace composite_transfer_test {

using namespace berth;

namespace {

/// Records the calls.
struct Part final : TransferState {
  Part() : TransferState(100) {}

  bool is_done() override { return done == bytes(); }
  void wait() override { ++waits; }
  [[nodiscard]] std::exception_ptr failure() const override { return why; }
  std::size_t bytes_done() override { return done; }
  void cancel() noexcept override { ++cancels; }
  void suppress_failure_report() noexcept override { ++suppressions; }
  void abandon() noexcept override { ++abandons; }
  void detach() noexcept override { ++detaches; }

  std::size_t done = 0;
  std::exception_ptr why;
  int waits = 0;
  int cancels = 0;
  int suppressions = 0;
  int abandons = 0;
  int detaches = 0;
};

struct ThreeParts {
  ThreeParts() {
    std::vector<Transfer> transfers;
    for (const auto& part : parts) transfers.emplace_back(part);
    transfers.emplace_back();  // of no bytes
    whole = std::make_unique<CompositeTransfer>(std::move(transfers));
  }
  void check_each(int Part::*calls, int expected) const {
    for (const auto& part : parts) CHECK((*part).*calls == expected);
  }

  std::vector<std::shared_ptr<Part>> parts{std::make_shared<Part>(), std::make_shared<Part>(),
                                           std::make_shared<Part>()};
  std::unique_ptr<CompositeTransfer> whole;
};

}  // namespace

TEST_CASE_FIXTURE(ThreeParts, "several transfers are done when the last is, in any order") {
  CHECK(whole->bytes() == 300);
  for (const std::size_t part : {2, 0, 1}) {
    CHECK_FALSE(whole->is_done());
    parts[part]->done = 100;
  }
  CHECK(whole->is_done());
  CHECK(whole->bytes_done() == 300);
  CHECK(whole->failure() == nullptr);
}

TEST_CASE_FIXTURE(ThreeParts, "progress of several transfers is the sum of theirs") {
  parts[0]->done = 30;
  parts[2]->done = 12;
  CHECK(whole->bytes_done() == 42);
}

TEST_CASE_FIXTURE(ThreeParts, "a wait waits for all transfers, whichever of them fails") {
  parts[0]->why = std::make_exception_ptr(std::runtime_error("first"));
  parts[1]->why = std::make_exception_ptr(std::runtime_error("second"));
  whole->wait();
  check_each(&Part::waits, 1);
  CHECK_THROWS_WITH_AS(std::rethrow_exception(whole->failure()), "first", std::runtime_error);
}

TEST_CASE_FIXTURE(ThreeParts, "all transfers are cancelled, and each once") {
  whole->cancel();
  check_each(&Part::cancels, 1);
}

TEST_CASE_FIXTURE(ThreeParts,
                  "suppressing the failure report of a composite suppresses it in each transfer") {
  whole->suppress_failure_report();
  check_each(&Part::suppressions, 1);
}

TEST_CASE_FIXTURE(
    ThreeParts, "each transfer is abandoned with the composite, and again at its own destruction") {
  whole->abandon();
  check_each(&Part::abandons, 1);
  whole = nullptr;
  check_each(&Part::abandons, 2);
}

TEST_CASE_FIXTURE(ThreeParts, "all transfers are detached") {
  whole->detach();
  check_each(&Part::detaches, 1);
}

}  // namespace composite_transfer_test
