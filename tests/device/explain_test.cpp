// SPDX-License-Identifier: Apache-2.0
// The sentences of DeviceRegistry::explain(): why each device is visible or not.
#include <optional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "berth/device_registry.hpp"

#include "driver/driver.hpp"
#include "driver/nvml.hpp"
#include "support/driver_tap.hpp"
#include "support/environment.hpp"
#include "support/errors.hpp"
#include "support/nvml_tap.hpp"
#include "support/simulation.hpp"

namespace explain_test {

using namespace berth;
using namespace berth::test;

namespace {

constexpr const char* kVariable = "CUDA_VISIBLE_DEVICES";

std::vector<std::string> sentences(const DeviceRegistry& registry) {
  std::vector<std::string> all;
  for (const DeviceExplanation& explanation : registry.explain()) {
    CHECK_FALSE(contains(explanation.sentence, "\n"));
    CHECK(explanation.sentence.ends_with("."));
    all.push_back(explanation.sentence);
  }
  return all;
}

std::vector<std::string> sentences(const std::string& machine,
                                   const std::optional<std::string>& visible) {
  const ScopedEnvironment environment(kVariable, visible);
  const Simulation simulation(sim::Config::parse(machine));
  return sentences(simulation.runtime->devices());
}

using Sentences = std::vector<std::string>;

}  // namespace

TEST_CASE("an explanation names the device as lists of devices do") {
  const ScopedEnvironment environment(kVariable, "1");
  const Simulation simulation(sim::Config::parse("devices=2,memory=8GiB,mig=1:2"));
  const DeviceRegistry& registry = simulation.runtime->devices();
  std::vector<DeviceInfo> infos = registry.physical_devices();
  for (const DeviceInfo& instance : registry.mig_instances()) infos.push_back(instance);
  const std::vector<DeviceExplanation> explanations = registry.explain();
  REQUIRE(explanations.size() == 4);
  for (std::size_t index = 0; index < infos.size(); ++index) {
    CAPTURE(index);
    CHECK(explanations[index].logical == infos[index].logical);
    CHECK(explanations[index].physical == infos[index].physical);
    CHECK(explanations[index].name == infos[index].name);
    CHECK(explanations[index].uuid == infos[index].uuid);
    CHECK(explanations[index].pci_bus_id == infos[index].pci_bus_id);
  }
}

TEST_CASE("a device is visible if the variable is not set, or if an entry names it") {
  CHECK(sentences("devices=1", std::nullopt) ==
        Sentences{"Visible as cuda:0: CUDA_VISIBLE_DEVICES is not set, so no device is hidden."});
  CHECK(sentences("devices=2", "1,0") ==
        Sentences{"Visible as cuda:1: entry 2 of CUDA_VISIBLE_DEVICES=\"1,0\", \"0\", names it.",
                  "Visible as cuda:0: entry 1 of CUDA_VISIBLE_DEVICES=\"1,0\", \"1\", names it."});
}

TEST_CASE(
    "a hidden device is reported as not named, past the end of the list, or hidden with all") {
  CHECK(sentences("devices=2", "0").at(1) ==
        "Hidden: CUDA_VISIBLE_DEVICES=\"0\" does not name it.");
  CHECK(sentences("devices=1", "").at(0) ==
        "Hidden: CUDA_VISIBLE_DEVICES is empty, which hides every device.");
  CHECK(
      sentences("devices=2", "0,x,1").at(1) ==
      "Hidden: entry 3 of CUDA_VISIBLE_DEVICES=\"0,x,1\", \"1\", names it, but CUDA stops reading "
      "at \"x\".");
  CHECK(
      sentences("devices=2", "0,-1,1").at(1) ==
      "Hidden: entry 3 of CUDA_VISIBLE_DEVICES=\"0,-1,1\", \"1\", names it, but CUDA stops reading "
      "at \"-1\".");
  const Sentences repeated = sentences("devices=3", "0,1,0");
  CHECK(repeated.at(0) ==
        "Hidden: entry 3 of CUDA_VISIBLE_DEVICES=\"0,1,0\", \"0\", repeats a device, which hides "
        "all devices.");
  CHECK(repeated.at(1) == repeated.at(0));
  CHECK(repeated.at(2) == "Hidden: CUDA_VISIBLE_DEVICES=\"0,1,0\" does not name it.");
}

TEST_CASE("an entry of another kind is reported as such") {
  const std::string uuid = [] {
    const ScopedEnvironment unset(kVariable, std::nullopt);
    const Simulation simulation(sim::Config::parse("devices=2"));
    return simulation.runtime->devices().physical_devices().at(1).uuid;
  }();
  CHECK(sentences("devices=2", "0," + uuid).at(1) ==
        "Hidden: entry 2 of CUDA_VISIBLE_DEVICES=\"0," + uuid + "\", \"" + uuid +
            "\", is of another kind than the first entry, which ends the list.");
}

TEST_CASE("a split device is hidden, and its instances are explained") {
  const Sentences newer = sentences("devices=3,memory=8GiB,mig=1:2/2:0", "1,2");
  REQUIRE(newer.size() == 5);
  CHECK(newer[0] == "Hidden: CUDA_VISIBLE_DEVICES=\"1,2\" does not name it.");
  CHECK(newer[1] == "Hidden: MIG has split it, and CUDA lists its instances instead.");
  CHECK(
      newer[2] ==
      "Visible as cuda:0: entry 1 of CUDA_VISIBLE_DEVICES=\"1,2\", \"1\", names its device, which "
      "MIG has split.");
  CHECK(newer[4] == "Hidden: it is in MIG mode without instances, so CUDA cannot use it.");

  const Sentences older = sentences("devices=2,memory=8GiB,mig=1:2,driver_version=12020", "0,1");
  CHECK(
      older.at(0) ==
      "Hidden: entry 1 of CUDA_VISIBLE_DEVICES=\"0,1\", \"0\", names it, but this driver lists at "
      "most one MIG instance for a process, and no other device.");
  CHECK(contains(older.at(3), "names it, but this driver lists at most one MIG instance"));
  CHECK(sentences("devices=2,memory=8GiB,mig=1:2,driver_version=12020", std::nullopt).at(0) ==
        "Hidden: this driver lists at most one MIG instance for a process, and no other device.");
}

TEST_CASE("a line break in the variable stays out of the sentences") {
  CHECK(contains(sentences("devices=1", "0\n,x\n").at(0), "\\x0a"));
}

TEST_CASE("for a device that no variable hides, the remaining possible causes are listed") {
  const sim::Simulator simulator("devices=2");
  const DriverTap tap;
  std::optional<Driver> driver;
  {
    // As in a container that has one device file of two.
    const ScopedEnvironment at_start(kVariable, "1");
    driver.emplace(tap.source(), ReportSink{});
  }
  const ScopedEnvironment none(kVariable, std::nullopt);
  const Nvml nvml(tap.source());
  const DeviceRegistry registry(*driver, nvml);
  const std::string sentence = sentences(registry).at(0);
  CHECK(contains(sentence, "although CUDA_VISIBLE_DEVICES is not set: "));
  for (const char* const cause : {"container", "cgroup", "permissions of /dev/nvidia*", "MPS"})
    CHECK(contains(sentence, cause));
  CHECK_FALSE(contains(sentence, "changed"));
}

TEST_CASE("words of the container runtime and ranges are told apart from ordinals") {
  for (const char* const word : {"all", "none", "void"}) {
    const sim::Simulator simulator("devices=2");
    const ScopedEnvironment variable(kVariable, word);
    const DriverTap tap;
    const Driver driver(tap.source(), ReportSink{});
    const Nvml nvml(tap.source());
    CHECK(contains(DeviceRegistry(driver, nvml).visibility_problem(), "NVIDIA_VISIBLE_DEVICES"));
  }
}

TEST_CASE("explanations follow the driver if it read another value than berth") {
  const sim::Simulator simulator("devices=2");
  const DriverTap tap;
  std::optional<Driver> driver;
  {
    const ScopedEnvironment at_start(kVariable, "1");
    driver.emplace(tap.source(), ReportSink{});
  }
  const ScopedEnvironment later(kVariable, "0,1");
  const Nvml nvml(tap.source());
  const DeviceRegistry registry(*driver, nvml);
  CHECK(registry.count() == 1);
  CHECK(contains(registry.visibility_problem(), "names 2 devices, but the driver shows 1"));
  const Sentences all = sentences(registry);
  CHECK(contains(
      all.at(0),
      "Hidden: the driver does not list it, although CUDA_VISIBLE_DEVICES=\"0,1\" does: the "
      "variable was changed after the driver had read it"));
  CHECK(all.at(1) == "Visible as cuda:0: the driver lists it.");
}

TEST_CASE("a change of the variable after the first read is reported until it is undone") {
  const ScopedEnvironment environment(kVariable, "1");
  const Simulation simulation(sim::Config::parse("devices=2"));
  const DeviceRegistry& registry = simulation.runtime->devices();
  CHECK(registry.visibility_problem().empty());
  const Sentences before = sentences(registry);
  {
    const ScopedEnvironment later(kVariable, "0");
    const std::string& problem = registry.visibility_problem();
    CHECK(
        problem ==
        "CUDA_VISIBLE_DEVICES was \"1\" when CUDA read it, and is \"0\" now, which has no effect");
    CHECK(sentences(registry).at(1) ==
          "Visible as cuda:0: entry 1 of CUDA_VISIBLE_DEVICES=\"1\", \"1\", names it "
          "(CUDA_VISIBLE_DEVICES was \"1\" when CUDA read it, and is \"0\" now, which has no "
          "effect).");
    const std::string message =
        message_of<InvalidArgument>([&] { return registry.resolve(Device::cuda(1)); });
    CHECK(contains(message, problem));
    {
      const ScopedEnvironment gone(kVariable, std::nullopt);
      CHECK(contains(registry.visibility_problem(), "is not set now"));
    }
    CHECK(&problem == &registry.visibility_problem());
  }
  CHECK(registry.visibility_problem().empty());
  CHECK(sentences(registry) == before);
}

TEST_CASE("without a usable driver the devices of NVML report that reason") {
  const ScopedEnvironment unset(kVariable, std::nullopt);
  const sim::Simulator simulator("devices=1");
  const DriverTap tap;
  const Driver none(
      DriverSource{.name = "x", .resolve = {}, .problem = "no library", .library = {}}, {});
  const Nvml nvml(tap.source());
  const DeviceRegistry registry(none, nvml);
  CHECK(sentences(registry) == Sentences{"Hidden: the CUDA driver does not work: no library."});
  CHECK(registry.visibility_problem().empty());
  const ScopedEnvironment set(kVariable, "0");
  CHECK(DeviceRegistry(none, nvml).visibility_problem().empty());
}

TEST_CASE("a device that NVML reports as lost is reported as lost") {
  const ScopedEnvironment visible(kVariable, "1");
  const sim::Simulator simulator("devices=2");
  const DriverTap tap;
  const Driver driver(tap.source(), {});
  NvmlTap nvml_tap;
  const Nvml nvml(nvml_tap.source());
  nvml_tap.refuse("nvmlDeviceGetMemoryInfo", nvml::kGpuIsLost);
  const DeviceRegistry registry(driver, nvml);
  CHECK(registry.physical_devices().at(0).lost);
  CHECK(registry.physical_devices().at(0).memory_bytes == 0);
  CHECK(sentences(registry).at(0) == "Hidden: it does not respond, NVML reports it as lost.");
  CHECK(contains(sentences(registry).at(1), "Visible as cuda:0"));
}

}  // namespace explain_test
