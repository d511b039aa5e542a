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

/// Number of objects that a plug-in of the tests has not been asked to free.
inline int plugin_objects_live(const std::string& path) {
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  REQUIRE(library != nullptr);
  auto* const live = reinterpret_cast<int (*)()>(dlsym(library, "berth_test_pjrt_live"));
  REQUIRE(bool(live));
  return live();
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
