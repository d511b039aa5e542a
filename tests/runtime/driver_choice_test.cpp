// SPDX-License-Identifier: Apache-2.0
// Which driver a Runtime uses, and its error if there is none.
#include <cstdlib>
#include <optional>
#include <string>
#include <unistd.h>
#include <vector>

#include <doctest/doctest.h>

#include "berth/runtime.hpp"

#include "sim/simulator.hpp"
#include "support/child_process.hpp"
#include "support/environment.hpp"
#include "support/errors.hpp"

namespace driver_choice_test {

using namespace berth;
using namespace berth::test;

namespace {

RuntimeOptions on_driver(const std::string& driver) {
  RuntimeOptions options;
  options.driver = driver;
  return options;
}

/// Forgets a simulator that an earlier test had made of BERTH_SIM, so that it is read again.
void forget_simulator() {
  const sim::Simulator replaces{sim::Config{}};
}

}  // namespace

TEST_CASE("sim is the simulated driver that a test installed") {
  sim::Config config;
  config.devices = 3;
  config.driver_version = 12040;
  const sim::Simulator simulator{config};
  const Runtime runtime(on_driver("sim"));
  CHECK(runtime.driver().name == "sim");
  CHECK(runtime.driver().usable);
  CHECK(runtime.driver().problem.empty());
  CHECK(runtime.driver().version == 12040);
  CHECK(runtime.devices().count() == 3);
}

TEST_CASE("a driver that does not list its devices is not usable, and has a problem") {
  sim::Config config;
  config.devices = 3;
  std::size_t unusable = 0;
  for (int nth = 1; nth <= 40; ++nth) {
    CAPTURE(nth);
    config.faults = sim::FaultPlan::parse("*@" + std::to_string(nth) + "=unknown");
    const sim::Simulator simulator{config};
    Runtime runtime(on_driver("sim"));
    CHECK((runtime.devices().count() == 3) == runtime.driver().usable);
    CHECK(runtime.driver().usable == runtime.driver().problem.empty());
    if (runtime.driver().usable) continue;
    ++unusable;
    CHECK(contains(runtime.driver().problem, "failed: CUDA_ERROR_UNKNOWN"));
    CHECK(runtime.devices().count() == 0);
    CHECK(runtime.host_memory().allocate(64));
  }
  CHECK(unusable == 4);  // cuDeviceGetCount, and cuDeviceGet for each device
}

TEST_CASE("sim is configured by BERTH_SIM if no test installed a simulator") {
  forget_simulator();
  const ScopedEnvironment environment("BERTH_SIM", "devices=5,memory=2GiB,name=Paper GPU");
  {
    const Runtime runtime(on_driver("sim"));
    CHECK(runtime.devices().count() == 5);
    REQUIRE(runtime.devices().physical_devices().size() == 5);
    CHECK(runtime.devices().physical_devices()[4].name == "Paper GPU");
    CHECK(runtime.devices().physical_devices()[4].memory_bytes == 2_GiB);
  }
  forget_simulator();
}

TEST_CASE("a malformed BERTH_SIM is refused by name, and a corrected one works") {
  forget_simulator();
  for (const std::string value : {"devices=none", "devices=0", "colour=red", "devices"}) {
    CAPTURE(value);
    const ScopedEnvironment environment("BERTH_SIM", value);
    const std::string message =
        message_of<InvalidArgument>([] { const Runtime runtime(on_driver("sim")); });
    CHECK(contains(message, "BERTH_SIM"));
    CHECK(contains(message, value.substr(0, 6)));
    forget_simulator();
  }
  {
    const ScopedEnvironment environment("BERTH_SIM", "devices=2");
    const Runtime runtime(on_driver("sim"));
    CHECK(runtime.devices().count() == 2);
  }
  forget_simulator();
}

TEST_CASE("a path without a driver library yields a Runtime that reports it") {
  for (const std::string path : {"/nonexistent/libcuda.so", "./no such.so", "/"}) {
    CAPTURE(path);
    const Runtime runtime(on_driver(path));
    const DriverInfo driver = runtime.driver();
    CHECK(driver.name == path);
    CHECK_FALSE(driver.usable);
    CHECK(driver.version == 0);
    CHECK(contains(driver.problem, path));
    CHECK_FALSE(contains(driver.problem, "\n"));
    CHECK(runtime.devices().count() == 0);
  }
}

TEST_CASE("an invalid driver name is rejected, and the message lists the drivers") {
  for (const std::string word : {"simulator", "SIM", "cuda ", "libz.so.1"}) {
    CAPTURE(word);
    const std::string message =
        message_of<InvalidArgument>([&] { const Runtime runtime(on_driver(word)); });
    CHECK(contains(message, word));
    CHECK(contains(message, "auto"));
  }
}

TEST_CASE("the path of a look-alike driver library is accepted as a driver") {
  const char* const folder = std::getenv("BERTH_SIM_LIBRARIES");
  if (folder == nullptr) {
    MESSAGE("skipped: BERTH_SIM_LIBRARIES does not name the folder of the look-alikes");
    return;
  }
  const std::string path = std::string(folder) + "/libcuda.so.1";
  // In a child: once loaded, a library is what its name means to every later loader in the process.
  const auto round_trip = [&path] {
    setenv("BERTH_SIM", "devices=2", 1);
    Runtime runtime(on_driver(path));
    if (runtime.driver().name != path || runtime.devices().count() != 2) return 1;
    const Stream stream = runtime.create_stream(Device::cuda(1));
    const Allocation block = runtime.memory(Device::cuda(1)).allocate(1000, stream);
    const std::vector<unsigned char> content(1000, 7);
    std::vector<unsigned char> back(1000);
    runtime.copier().copy_async(block.data(), content.data(), 1000, stream);
    runtime.copier().copy(back.data(), block.data(), 1000, stream);
    return back == content ? 0 : 1;
  };
  // Without the end of a process: LeakSanitizer stumbles over the thread of a simulator that stays.
  CHECK(exit_code_of([&]() -> int { _exit(round_trip()); }) == 0);
}

TEST_CASE("BERTH_DRIVER selects the driver if the code does not") {
  sim::Config config;
  config.devices = 2;
  const sim::Simulator simulator{config};
  {
    const ScopedEnvironment environment("BERTH_DRIVER", "sim");
    const Runtime runtime;
    CHECK(runtime.driver().name == "sim");
    CHECK(runtime.devices().count() == 2);
  }
  {
    const ScopedEnvironment environment("BERTH_DRIVER", "/nonexistent/driver.so");
    const Runtime runtime;
    CHECK(runtime.driver().name == "/nonexistent/driver.so");
    CHECK_FALSE(runtime.driver().usable);
  }
}

TEST_CASE("code overrides BERTH_DRIVER") {
  const sim::Simulator simulator{sim::Config{}};
  const ScopedEnvironment environment("BERTH_DRIVER", "/nonexistent/driver.so");
  const Runtime runtime(on_driver("sim"));
  CHECK(runtime.driver().name == "sim");
  CHECK(runtime.driver().usable);
}

TEST_CASE("the default driver is cuda, and never the simulator") {
  const sim::Simulator simulator{sim::Config{}};
  const ScopedEnvironment environment("BERTH_DRIVER", std::nullopt);
  const Runtime runtime;
  CHECK(runtime.driver().name == "cuda");
  CHECK(runtime.driver().usable == runtime.driver().problem.empty());
  for (const DeviceInfo& device : runtime.devices().physical_devices())
    CHECK(device.name != "Simulated GPU");
}

TEST_CASE("auto is cuda if it has a device, and sim otherwise") {
  const sim::Simulator simulator{sim::Config{}};
  const Runtime cuda(on_driver("cuda"));
  const Runtime runtime(on_driver("auto"));
  CHECK(runtime.driver().usable);
  CHECK(runtime.devices().is_available());
  CHECK(runtime.driver().name == (cuda.devices().is_available() ? "cuda" : "sim"));
}

}  // namespace driver_choice_test
