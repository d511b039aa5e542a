// SPDX-License-Identifier: Apache-2.0
#include "device/backend_visibility.hpp"

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "device/tpu_chips.hpp"
#include "device/visible_variables.hpp"
#include "support/temporary_folder.hpp"

namespace backend_visibility_test {

using namespace berth;
using namespace berth::test;

namespace {

DeviceAttribute variable(const char* name, const std::string& text) {
  return {name, text};
}

/// TPUs with these chips, on a machine with 4 chips.
BackendView tpus(const std::vector<std::int64_t>& chips, std::vector<DeviceAttribute> variables) {
  BackendView view{"tpu", std::move(variables), {}, true, 4, false};
  for (const std::int64_t chip : chips) {
    DeviceDescription& device = view.devices.emplace_back();
    device.attributes.push_back({"id", std::int64_t{0}});
    device.attributes.push_back({"local_hardware_id", chip});
  }
  return view;
}

std::vector<std::string> sentences(const BackendView& view) {
  std::vector<std::string> all;
  for (const DeviceExplanation& each : explain_view(view)) all.push_back(each.sentence);
  return all;
}

using Texts = std::vector<std::string>;

}  // namespace

TEST_CASE("the chips that the variable names are visible, and the others of the machine hidden") {
  const auto explained = explain_view(tpus({2, 3}, {variable("TPU_VISIBLE_CHIPS", "2,3")}));
  REQUIRE(explained.size() == 4);
  CHECK(explained[0].logical == 0);
  CHECK(explained[0].physical == 2);
  CHECK(explained[0].sentence == "Visible as tpu:0: TPU_VISIBLE_CHIPS=\"2,3\" names chip 2");
  CHECK(explained[1].sentence == "Visible as tpu:1: TPU_VISIBLE_CHIPS=\"2,3\" names chip 3");
  CHECK(explained[2].logical == std::nullopt);
  CHECK(explained[2].physical == 0);
  CHECK(explained[2].sentence == "Hidden: TPU_VISIBLE_CHIPS=\"2,3\" does not name chip 0");
  CHECK(explained[3].physical == 1);
}

TEST_CASE("a backend that does not follow the variable is explained as it is") {
  CHECK(sentences(tpus({1}, {variable("TPU_VISIBLE_CHIPS", "0,9")})) ==
        Texts{"Visible as tpu:0: the backend shows chip 1, although TPU_VISIBLE_CHIPS=\"0,9\" does "
              "not name it",
              "Hidden: TPU_VISIBLE_CHIPS=\"0,9\" names chip 0, which the backend does not show",
              "Hidden: TPU_VISIBLE_CHIPS=\"0,9\" does not name chip 2",
              "Hidden: TPU_VISIBLE_CHIPS=\"0,9\" does not name chip 3",
              "Hidden: TPU_VISIBLE_CHIPS=\"0,9\" names chip 9, which the machine does not have"});
  for (const char* const text : {"0;1", "a", "-1", "0-3", "1,,2", "99999999999"}) {
    CAPTURE(text);
    const BackendView view = tpus({0, 1, 2}, {variable("TPU_VISIBLE_CHIPS", text)});
    const std::string set = std::string("TPU_VISIBLE_CHIPS=\"") + text + "\"";
    CHECK(sentences(view).front() ==
          "Visible as tpu:0: the backend shows chip 0; " + set + " is no list of chips");
    CHECK(sentences(view).back() ==
          "Hidden: the backend does not show chip 3; " + set + " is no list of chips");
  }
}

TEST_CASE("a variable that is not set or empty selects nothing, and its former name counts") {
  const Texts unset = {
      "Visible as tpu:0: the backend shows chip 0, and TPU_VISIBLE_CHIPS is not set",
      "Hidden: the backend does not show chip 1, although TPU_VISIBLE_CHIPS is not "
      "set"};
  BackendView view = tpus({0}, {});
  view.chips = 2;
  CHECK(sentences(view) == unset);
  view.variables = {variable("TPU_VISIBLE_DEVICES", "0")};
  CHECK(sentences(view).back() == "Hidden: TPU_VISIBLE_DEVICES=\"0\" does not name chip 1");
  view.variables = {variable("TPU_VISIBLE_CHIPS", ""), variable("TPU_VISIBLE_DEVICES", "0")};
  CHECK(sentences(view).back() ==
        "Hidden: TPU_VISIBLE_DEVICES=\"0\" does not name chip 1; TPU_VISIBLE_CHIPS=\"\"");
  view.variables = {variable("TPU_VISIBLE_CHIPS", "0"), variable("TPU_PROCESS_BOUNDS", "1,1,1")};
  CHECK(sentences(view).front() ==
        "Visible as tpu:0: TPU_VISIBLE_CHIPS=\"0\" names chip 0; TPU_PROCESS_BOUNDS=\"1,1,1\"");
}

TEST_CASE("no chips are named where the numbers may be those of cores, or of entries of the list") {
  const auto variables = std::vector{variable("TPU_VISIBLE_CHIPS", "0,1,2,3")};
  const auto others = [](int count, const std::string& text) {
    Texts all;
    for (int ordinal = 0; ordinal < count; ++ordinal) {
      all.push_back("Visible as tpu:" + std::to_string(ordinal) +
                    ": the backend shows it; TPU_VISIBLE_CHIPS=\"" + text + "\"");
    }
    return all;
  };
  CHECK(sentences(tpus({0, 1, 2, 3, 4, 5, 6, 7}, variables)) == others(8, "0,1,2,3"));
  CHECK(sentences(tpus({0, 0, 1, 1}, variables)) == others(4, "0,1,2,3"));
  BackendView cores = tpus({0, 1, 2}, variables);
  cores.devices[1].attributes.push_back({"core_on_chip", std::int64_t{1}});
  CHECK(sentences(cores) == others(3, "0,1,2,3"));
  for (const char* const list : {"2,3", "1,2", "0,3", "0,1,2"}) {
    const auto explained = explain_view(tpus({0, 1}, {variable("TPU_VISIBLE_CHIPS", list)}));
    CAPTURE(list);
    CHECK(explained.size() == 2);
    CHECK(explained[0].physical == -1);
    CHECK(explained[0].sentence == others(1, list)[0]);
  }
  CHECK(sentences(tpus({1, 0}, {variable("TPU_VISIBLE_CHIPS", "0,1,1")})).front() ==
        "Visible as tpu:0: TPU_VISIBLE_CHIPS=\"0,1,1\" names chip 1");
}

TEST_CASE("chips without a client, topologies and other makes") {
  BackendView failed = tpus({}, {variable("TPU_VISIBLE_CHIPS", "1")});
  failed.chips = 2;
  failed.fails = true;
  CHECK(sentences(failed) ==
        Texts{"Hidden: TPU_VISIBLE_CHIPS=\"1\" does not name chip 0",
              "Hidden: chip 1 has no client, because the plug-in of tpu cannot be used; "
              "TPU_VISIBLE_CHIPS=\"1\""});
  BackendView topology = tpus({}, {});
  topology.devices.resize(2);
  CHECK(sentences(topology) ==
        Texts{"Visible as tpu:0: the backend shows it", "Visible as tpu:1: the backend shows it"});
  BackendView other = tpus({7}, {variable("NEURON_RT_VISIBLE_CORES", "0-3")});
  other.type = "neuron";
  other.is_tpu = false;
  CHECK(sentences(other) == Texts{"Visible as neuron:0: the backend shows it; "
                                  "NEURON_RT_VISIBLE_CORES=\"0-3\""});
}

TEST_CASE("a name is that of TPUs if it has the word") {
  for (const char* const name :
       {"tpu", "TPU", "tpu7x", "my_tpu", "tpu (libtpu 1.2)", "v5 tpu lite"}) {
    CAPTURE(name);
    CHECK(is_tpu(name, ""));
    CHECK(is_tpu("other", name));
  }
  for (const char* const name : {"output", "tpulse", "", "outputs", "tp"}) {
    CAPTURE(name);
    CHECK_FALSE(is_tpu(name, name));
  }
  CHECK(is_tpu("output tpu", ""));
}

TEST_CASE("chips are counted on the PCI bus by vendor and device") {
  const TemporaryFolder root;
  const auto add = [&](const char* address, const char* vendor, const char* device) {
    std::filesystem::create_directories(root.path() / address);
    std::ofstream(root.path() / address / "vendor") << vendor << '\n';
    std::ofstream(root.path() / address / "device") << device << '\n';
  };
  CHECK(count_tpu_chips(root.path().string()) == 0);
  add("0000:00:04.0", "0x1ae0", "0x0063");
  add("0000:00:05.0", "0x1ae0", "0x006f");
  add("0000:00:06.0", "0x1ae0", "0x0042");  // a network card
  add("0000:00:07.0", "0x10de", "0x0063");
  CHECK(count_tpu_chips(root.path().string()) == 2);
  CHECK(count_tpu_chips("/nonexistent") == 0);
}

}  // namespace backend_visibility_test
