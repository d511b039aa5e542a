// SPDX-License-Identifier: Apache-2.0
// libtpu on a machine without a TPU: it loads, fails cleanly, and knows topologies. It comes as the
// wheel libtpu; BERTH_PJRT_WHEELS is the folder that it was installed into.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <variant>

#include <doctest/doctest.h>

#include "berth/pjrt.hpp"

#include "support/errors.hpp"
#include "support/simulation.hpp"

namespace libtpu_test {

using namespace berth;
using namespace berth::test;

namespace {

PjrtPlugin libtpu() {
  setenv("TPU_SKIP_MDS_QUERY", "1", 0);  // no query of a cloud's metadata server
  const char* const wheels = std::getenv("BERTH_PJRT_WHEELS");
  return {"tpu", std::string(wheels == nullptr ? "" : wheels) + "/libtpu/libtpu.so"};
}

struct Topology {
  const char* name;
  int devices;
  const char* kind;
  std::uint64_t memory_bytes;
};

std::string text_of(const DeviceBackend& backend, std::string_view name) {
  for (const DeviceAttribute& attribute : backend.attributes())
    if (attribute.name == name) return std::get<std::string>(attribute.value);
  return {};
}

}  // namespace

TEST_CASE("the plug-in tells its version and its extensions, without a TPU") {
  const auto described = open_pjrt_topology(libtpu(), "v5e:2x2x1");
  CHECK(described->name() == "PJRT tpu topology v5e:2x2x1, API 0.117");
  CHECK(text_of(*described, "pjrt_api_version") == "0.117");
  CHECK(text_of(*described, "pjrt_extensions") ==
        "FFI XlaTransform HostMemoryAllocator MultiSlice Collectives AbiVersion Shardings "
        "Megascale TpuExecutable TpuTopology Callback PhaseCompile CrossHostTransfers "
        "ExecutableMetadata MemoryDescriptions Layouts RawBuffer Profiler");
  CHECK(described->attributes().size() == 2);
}

TEST_CASE("without a TPU client creation fails with a code and a text") {
  const std::string message = message_of<Error>([] { return open_pjrt(libtpu()); });
  CHECK(contains(message, "libtpu.so: PJRT_Client_Create failed with "));
  // It can be used further.
  CHECK(open_pjrt_topology(libtpu(), "v6e:2x2")->count() == 4);
}

TEST_CASE("topologies are described without hardware") {
  for (const Topology& expected : {Topology{"v5e:2x2x1", 4, "TPU v5 lite", 16'909'334'528},
                                   Topology{"v5e:4x4", 16, "TPU v5 lite", 16'909'328'384},
                                   Topology{"v6e:2x2", 4, "TPU v6 lite", 33'546'041'344}}) {
    CAPTURE(expected.name);
    Simulation simulation;
    simulation.runtime->register_backend("tpu", open_pjrt_topology(libtpu(), expected.name));
    const DeviceRegistry& devices = simulation.runtime->devices();
    const DeviceType tpu = *DeviceType::find("tpu");
    CHECK(devices.count(tpu) == expected.devices);
    const DeviceDescription description = devices.describe(Device::of(tpu, expected.devices - 1));
    CHECK(description.kind == expected.kind);
    CHECK(description.memory_bytes == expected.memory_bytes);
    bool has_coordinates = false;
    for (const DeviceAttribute& attribute : description.attributes)
      has_coordinates = has_coordinates || attribute.name == "coords";
    CHECK(has_coordinates);
  }
}

}  // namespace libtpu_test
