// SPDX-License-Identifier: Apache-2.0
// The rule of CUDA_VISIBLE_DEVICES held against the driver that BERTH_DRIVER names, on the devices
// that it has: every text of the table of cases that this machine has the devices for. A driver
// reads the variable once in a process, so each case has a process, and this one never calls a
// driver.
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <optional>
#include <sstream>
#include <string>
#include <unistd.h>
#include <vector>

#include <doctest/doctest.h>

#include "berth/runtime.hpp"

#include "device/visible_case_text.hpp"
#include "support/child_process.hpp"
#include "support/environment.hpp"

namespace visible_devices_on_driver_test {

using namespace berth;
using namespace berth::test;

namespace {

/// A process that initializes a real driver takes a part of a second: BERTH_TEST_SECONDS_MAX ends
/// the table early.
class TimeToTest {
 public:
  [[nodiscard]] bool is_over() const { return seconds_ && Clock::now() >= begin_ + *seconds_; }

 private:
  using Clock = std::chrono::steady_clock;
  static std::optional<std::chrono::seconds> seconds_max() {
    const char* const text = std::getenv("BERTH_TEST_SECONDS_MAX");
    if (text == nullptr) return std::nullopt;
    return std::chrono::seconds(std::atoi(text));
  }

  const std::optional<std::chrono::seconds> seconds_ = seconds_max();
  const Clock::time_point begin_ = Clock::now();
};

/// What `action` writes to a stream in a child process; REQUIREs that it ends well.
template <class Action>
std::string written_by_child(Action&& action) {
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  const auto code = exit_code_of([&] {
    std::ostringstream out;
    action(out);
    const std::string text = out.str();
    // Less than a pipe holds, so that it can be read afterwards.
    return write(ends[1], text.data(), text.size()) == ssize_t(text.size()) ? 0 : 1;
  });
  close(ends[1]);
  std::string text;
  char part[4096];
  for (ssize_t bytes; (bytes = read(ends[0], part, sizeof part)) > 0;)
    text.append(part, std::size_t(bytes));
  close(ends[0]);
  REQUIRE(code == 0);
  return text;
}

/// The UUIDs of the machine behind the driver, a device a line, its instances behind it.
MachineUuids read_machine() {
  std::istringstream lines(written_by_child([](std::ostream& out) {
    const Runtime runtime;
    const DeviceRegistry& registry = runtime.devices();
    for (const DeviceInfo& device : registry.physical_devices()) {
      out << device.uuid;
      for (const DeviceInfo& instance : registry.mig_instances())
        if (instance.physical == device.physical) out << ' ' << instance.uuid;
      out << '\n';
    }
  }));
  MachineUuids uuids;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    words >> uuids.devices.emplace_back();
    uuids.instances.emplace_back();
    for (std::string uuid; words >> uuid;) uuids.instances.back().push_back(uuid);
  }
  return uuids;
}

/// The sentences in which the registry says that the driver and the rule differ.
std::string differences() {
  return written_by_child([](std::ostream& out) {
    const Runtime runtime;
    for (const DeviceExplanation& explanation : runtime.devices().explain()) {
      const std::string& sentence = explanation.sentence;
      if (contains(sentence, "the driver lists it") || contains(sentence, "the driver does not"))
        out << sentence << '\n';
    }
  });
}

}  // namespace

TEST_CASE("the driver shows the devices of the rule, for every text of the table") {
  const ScopedEnvironment unset("CUDA_VISIBLE_DEVICES", std::nullopt);
  // The other order is the driver's own, of which the registry learns from what it shows.
  const ScopedEnvironment order("CUDA_DEVICE_ORDER", "PCI_BUS_ID");
  const MachineUuids uuids = read_machine();
  if (uuids.devices.empty()) {
    std::cout << "skipped: the driver has no devices\n";
    return;
  }
  int checked = 0;
  int left_out = 0;
  int not_reached = 0;
  const TimeToTest time;
  for (const auto& all : {whole_device_cases(), instance_and_order_cases()}) {
    for (const VisibleDeviceCases& cases : all) {
      for (const VisibleDeviceCase& expected : cases.cases) {
        std::optional<std::string> text;
        if (expected.text) {
          text = with_uuids(*expected.text, uuids);
          if (!text) {
            ++left_out;
            continue;
          }
        }
        if (time.is_over()) {
          ++not_reached;
          continue;
        }
        CAPTURE(rule_text(expected.rule));
        CAPTURE(text.value_or("(not set)"));
        const ScopedEnvironment visible("CUDA_VISIBLE_DEVICES", text);
        CHECK(differences() == "");
        ++checked;
      }
    }
  }
  std::cout << uuids.devices.size() << " devices: " << checked << " cases held, " << left_out
            << " need other devices, " << not_reached << " found no time\n";
  CHECK(checked + not_reached > 100);
}

}  // namespace visible_devices_on_driver_test
