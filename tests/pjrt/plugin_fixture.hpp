// SPDX-License-Identifier: Apache-2.0
// A Runtime on the simulated driver, and plug-ins of the tests as devices of type `pjrt`.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <dlfcn.h>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include "berth/pjrt.hpp"
#include "berth/runtime.hpp"

#include "backend/backend_fixture.hpp"
#include "driver/sim_abi.hpp"
#include "support/errors.hpp"
#include "support/simulation.hpp"

namespace berth::test {

/// The path of a variant of the plug-in (tests/pjrt/meson.build).
inline std::string plugin_path(std::string_view variant) {
  const char* const folder = std::getenv("BERTH_PJRT_PLUGINS");
  REQUIRE(folder != nullptr);
  return std::string(folder) + "/libpjrt_plugin_" + std::string(variant) + ".so";
}

/// A function of a plug-in of the tests, for its tests.
template <class Function>
Function* plugin_function(const std::string& path, const char* name) {
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  REQUIRE(library != nullptr);
  auto* const function = reinterpret_cast<Function*>(dlsym(library, name));
  REQUIRE(bool(function));
  return function;
}

/// Number of objects that a plug-in of the tests has not been asked to free.
inline int plugin_objects_live(const std::string& path) {
  return plugin_function<int()>(path, "berth_test_pjrt_live")();
}

/// Number of calls of a function of the ABI, without "PJRT_"; of all of them for null.
inline int plugin_calls(const std::string& path, const char* name) {
  return plugin_function<int(const char*)>(path, "berth_test_pjrt_calls")(name);
}

/// The machine whose devices are those of a plug-in of the tests; nullopt: they are host memory.
using PluginMachine = std::optional<sim::Config>;

/// Four devices whose work runs in one of many orders.
inline sim::Config plugin_machine(sim::Progress progress, std::uint64_t seed) {
  sim::Config config;
  config.devices = 4;
  config.progress = progress;
  config.seed = seed;
  config.jitter_percent = progress == sim::Progress::timed ? 50 : 0;
  return config;
}

/// BERTH_TEST_PJRT_MACHINE, such as "progress=random,seed=3", is the machine of tests that do not
/// say.
inline PluginMachine plugin_machine_from_environment() {
  const char* const text = std::getenv("BERTH_TEST_PJRT_MACHINE");
  if (text == nullptr) return std::nullopt;
  const sim::Config config = sim::Config::parse(text);
  return plugin_machine(config.progress, config.seed);
}

/// Destruction fails the test where an object of the plug-in is left, and where the simulated
/// driver has a finding.
class PluginFixture {
 public:
  explicit PluginFixture(std::vector<PjrtOption> options = {}, std::string_view variant = "current",
                         const PluginMachine& machine = plugin_machine_from_environment())
      : simulation(machine.value_or(two_cuda_devices())), path(plugin_path(variant)) {
    if (machine) {
      options.push_back({"simulated", true});
      plugin_function<void(decltype(&berth_sim_resolve))>(
          path, "berth_test_pjrt_use_driver")(&berth_sim_resolve);
    }
    runtime().register_pjrt("pjrt", path, std::move(options));
  }
  ~PluginFixture() {
    simulation.runtime.reset();
    CHECK(plugin_objects_live(path) == 0);
    for (const std::string& finding : simulation.simulator.take_findings()) FAIL_CHECK(finding);
  }
  PluginFixture(const PluginFixture&) = delete;
  PluginFixture& operator=(const PluginFixture&) = delete;

  [[nodiscard]] Runtime& runtime() { return *simulation.runtime; }
  [[nodiscard]] DeviceBuffers& buffers() { return runtime().buffers(); }
  [[nodiscard]] static Device device(int ordinal) {
    return Device::of(DeviceType::register_name("pjrt"), ordinal);
  }

  Simulation simulation;
  const std::string path;
};

}  // namespace berth::test
