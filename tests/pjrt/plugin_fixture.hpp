// SPDX-License-Identifier: Apache-2.0
// A Runtime on the simulated driver, and plug-ins of the tests as devices of type `pjrt`.
#pragma once

#include <cstdlib>
#include <dlfcn.h>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include "berth/pjrt.hpp"
#include "berth/runtime.hpp"

#include "backend/backend_fixture.hpp"
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

/// Destruction fails the test where an object of the plug-in is left.
class PluginFixture {
 public:
  explicit PluginFixture(std::vector<PjrtOption> options = {}, std::string_view variant = "current")
      : path(plugin_path(variant)) {
    runtime().register_pjrt("pjrt", path, std::move(options));
  }
  ~PluginFixture() {
    simulation.runtime.reset();
    CHECK(plugin_objects_live(path) == 0);
  }
  PluginFixture(const PluginFixture&) = delete;
  PluginFixture& operator=(const PluginFixture&) = delete;

  [[nodiscard]] Runtime& runtime() { return *simulation.runtime; }
  [[nodiscard]] DeviceBuffers& buffers() { return runtime().buffers(); }
  [[nodiscard]] static Device device(int ordinal) {
    return Device::of(DeviceType::register_name("pjrt"), ordinal);
  }

  Simulation simulation{two_cuda_devices()};
  const std::string path;
};

}  // namespace berth::test
