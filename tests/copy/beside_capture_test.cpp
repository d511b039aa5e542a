// SPDX-License-Identifier: Apache-2.0
// Waits of berth while another thread captures in the mode `global`, in which the driver refuses
// waits of every thread that has not chosen the mode `relaxed`: the work is done when the call
// returns, and the capture stays valid.
#include <cstddef>
#include <optional>
#include <string>

#include <doctest/doctest.h>

#include "copy/file_fixture.hpp"
#include "support/captured_graph.hpp"
#include "support/second_thread.hpp"

namespace beside_capture_test {

using namespace berth;
using namespace berth::test;

namespace {

constexpr std::size_t kBytes = 3 * 64_KiB + 5;

sim::Config machine(const char* faults = "") {
  sim::Config config;
  config.devices = 2;
  config.progress = sim::Progress::manual;
  config.faults = sim::FaultPlan::parse(faults);
  return config;
}

RuntimeOptions simulated() {
  RuntimeOptions options;
  options.driver = "sim";
  return options;
}

/// A capture of another thread, on a stream of another Runtime.
class OtherCapture {
 public:
  explicit OtherCapture(int device = 1) : runtime_(simulated()) {
    thread_.run([&] {
      stream_.emplace(runtime_.create_stream(Device::cuda(device)));
      begin_capture(*stream_, CU_STREAM_CAPTURE_MODE_GLOBAL);
    });
  }
  ~OtherCapture() {
    thread_.run([&] {
      const bool is_valid = capture_status(*stream_) == CU_STREAM_CAPTURE_STATUS_ACTIVE;
      CHECK(is_valid);
      if (is_valid)
        CHECK(CapturedGraph(*stream_).nodes() == 0);
      else
        fail_capture(*stream_);
    });
    thread_.end();
  }
  OtherCapture(const OtherCapture&) = delete;
  OtherCapture& operator=(const OtherCapture&) = delete;

 private:
  Runtime runtime_;
  std::optional<Stream> stream_;
  SecondThread thread_;
};

/// Copies of files by the driver, which needs no gates.
struct FileByDriver : CopyTest {
  FileByDriver() : CopyTest(machine(), {.gates = CopyGates::off}) { write_file(path, content); }

  const TemporaryFolder folder;
  const std::string path = folder.path() / "weights";
  const Bytes content = pattern(kBytes, 1);
};

}  // namespace

TEST_CASE_FIXTURE(FileByDriver,
                  "the driver copies files to a device and back during another capture") {
  Buffer device(*this, Kind::device, kBytes);
  const std::string back = folder.path() / "back";
  const OtherCapture capture;
  const Stream own = stream();
  log.submit(own, "kernel");
  copier.start(device.data(), {File::open_to_read(path), 0, kBytes}, own).wait();
  CHECK(log.is_done("kernel"));
  log.submit(own, "another kernel");
  copier.start({File::open_to_write(back), 0, kBytes}, device.data(), own).wait();
  CHECK(log.is_done("another kernel"));
  CHECK((read_file(back) == content));
}

TEST_CASE("a copy that fails during another capture throws after its submitted work is done") {
  CopyTest test(machine("cuMemcpyAsync@4=invalid_value"), {.direct_piece_bytes = 64_KiB});
  Buffer device(test, Kind::device, kBytes);
  Buffer pinned(test, Kind::pinned, kBytes);
  const OtherCapture capture;
  const Stream own = test.stream();
  const auto copy = [&] { test.copier.start(device.data(), pinned.data(), kBytes, own); };
  bool has_failed = false;
  for (int round = 0; round < 4 && !has_failed; ++round) {
    test.log.submit(own, std::to_string(round));
    try {
      copy();
    } catch (const DriverError&) {
      has_failed = true;
      CHECK(test.log.is_done(std::to_string(round)));
    }
  }
  CHECK(has_failed);
  copy();
}

TEST_CASE("a wait for a copy during another capture survives a driver call that fails once" *
          needs_gates()) {
  CopyTest test(machine("cuEventSynchronize@1=unknown"));
  Buffer device(test, Kind::device, kBytes);
  const Bytes content = pattern(kBytes, 2);
  const OtherCapture capture;
  const Stream own = test.stream();
  test.log.submit(own, "kernel");
  const Transfer transfer = test.copier.start(device.data(), content.data(), kBytes, own);
  transfer.wait();
  CHECK(test.log.is_done("kernel"));
  CHECK((device.read() == content));
}

TEST_CASE("a registration ends during another capture once its streams are done, marked or not") {
  for (const char* const faults : {"", "cuEventRecord@1+=out_of_memory"}) {
    CAPTURE(faults);
    CopyTest test(machine(faults));
    Buffer device(test, Kind::device, kBytes);
    Bytes content = pattern(kBytes, 3);
    const Stream own = test.stream();
    HostRegistration registration =
        test.runtime->pinned_memory().register_memory(content.data(), kBytes);
    const OtherCapture capture;
    test.log.submit(own, "kernel");
    registration.record_stream(own);
    registration.reset();
    CHECK(test.log.is_done("kernel"));
    CHECK(test.reports.all().empty());
  }
}

TEST_CASE("a stream is retired during another capture without an event") {
  for (const bool is_registered : {true, false}) {
    CAPTURE(is_registered);
    CopyTest test(machine("cuEventRecord@1+=out_of_memory"));
    test.errors_expected = true;
    Bytes content = pattern(kBytes, 4);
    HostRegistration registration;
    Allocation block;
    std::optional<Stream> own(test.stream());
    test.log.submit(*own, "kernel");
    if (is_registered) {
      registration = test.runtime->pinned_memory().register_memory(content.data(), kBytes);
      registration.record_stream(*own);
    } else {
      block = test.runtime->pinned_memory().allocate(kBytes);
      block.record_stream(*own);
    }
    const OtherCapture capture;
    own.reset();
    CHECK(test.log.is_done("kernel"));
  }
}

TEST_CASE("a Runtime is destroyed during another capture once its devices are idle") {
  CopyTest test(machine());
  const OtherCapture capture;
  const StreamRef own = test.runtime->default_stream(Device::cuda(0));
  { const Allocation block = test.runtime->memory(Device::cuda(0)).allocate(kBytes, own); }
  test.log.submit(own, "kernel");
  test.runtime.reset();
  CHECK(test.log.is_done("kernel"));
  CHECK(test.reports.all().empty());
}

}  // namespace beside_capture_test
