// SPDX-License-Identifier: Apache-2.0
#include "stream/wait_after_failure.hpp"

#include <doctest/doctest.h>

#include "support/simulation.hpp"
#include "support/tapped_device.hpp"

namespace wait_after_failure_test {

using namespace berth;
using namespace berth::test;

namespace {

struct PendingWork : TappedDevice {
  PendingWork() : TappedDevice(manual_progress()) {}

  /// Whether work of a stream has ended when `wait` returns, although a call of it fails.
  template <class Wait>
  bool ends_although_refused(DriverCall call, const Wait& wait) {
    const Stream stream = this->stream();
    log.submit(stream, "work");
    const SharedEvent mark = record(stream);
    tap.refuse(call, CUDA_ERROR_UNKNOWN);
    wait(stream.ref(), mark->ref());
    const bool has_ended = simulator.pending_operations(stream.ref().native()) == 0;
    simulator.run_all();
    tap.allow(call);
    return has_ended;
  }
};

}  // namespace

TEST_CASE_FIXTURE(PendingWork, "a wait for a stream is repeated if a call of it fails") {
  const auto wait = [](StreamRef stream, EventRef) { wait_after_failure(stream); };
  for (const DriverCall call : {DriverCall::stream_synchronize, DriverCall::stream_is_capturing}) {
    CAPTURE(int(call));
    CHECK(ends_although_refused(call, wait));
  }
  CHECK(reports.all().empty());
  CHECK(ends_although_refused(DriverCall::ctx_get_current, wait));  // which is reported
}

TEST_CASE_FIXTURE(PendingWork, "a stream whose queries all fail is waited for") {
  const Stream stream = this->stream();
  log.submit(stream, "work");
  tap.refuse_all(DriverCall::stream_is_capturing, CUDA_ERROR_UNKNOWN);
  wait_after_failure(stream.ref());
  CHECK(simulator.pending_operations(stream.ref().native()) == 0);
}

TEST_CASE_FIXTURE(PendingWork, "a wait for a mark is repeated if a call of it fails") {
  CHECK(ends_although_refused(DriverCall::event_synchronize,
                              [](StreamRef, EventRef mark) { wait_after_failure(mark); }));
}

TEST_CASE_FIXTURE(PendingWork, "a device that fails each wait is reported once") {
  const Stream stream = this->stream();
  tap.refuse_all(DriverCall::stream_synchronize, CUDA_ERROR_LAUNCH_FAILED);
  wait_after_failure(stream.ref());
  REQUIRE(reports.all().size() == 1);
  CHECK(reports.all()[0].severity == Severity::error);
}

}  // namespace wait_after_failure_test
