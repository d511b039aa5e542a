// SPDX-License-Identifier: Apache-2.0
#include "probes/link.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <dlfcn.h>
#include <fstream>

#include <fmt/format.h>

namespace berth::campaign {
namespace {

using Facts = std::vector<std::pair<std::string, std::string>>;
constexpr const char* kUnknown = "not known here";

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  return std::getline(file, line) ? line : kUnknown;
}

void add_facts_of_linux(Facts& facts, std::string address) {
  std::ranges::transform(address, address.begin(), [](unsigned char c) { return std::tolower(c); });
  const std::string folder = "/sys/bus/pci/devices/" + address + "/";
  facts.emplace_back("PCI link",
                     fmt::format("{}, {} lanes", first_line(folder + "current_link_speed"),
                                 first_line(folder + "current_link_width")));
  facts.emplace_back("PCI link at most",
                     fmt::format("{}, {} lanes", first_line(folder + "max_link_speed"),
                                 first_line(folder + "max_link_width")));
  facts.emplace_back("NUMA node of the device", first_line(folder + "numa_node"));
  facts.emplace_back("processors close to it", first_line(folder + "local_cpulist"));
  facts.emplace_back("kernel module", first_line("/proc/driver/nvidia/version"));
}

class Nvml {
 public:
  Nvml() : library_(dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL)) {}
  ~Nvml() {
    if (device_ != nullptr) call<int()>("nvmlShutdown");
    if (library_ != nullptr) dlclose(library_);
  }
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  bool find(const std::string& pci_address) {
    return call<int()>("nvmlInit_v2") &&
           call<int(const char*, void**)>("nvmlDeviceGetHandleByPciBusId_v2", pci_address.c_str(),
                                          &device_);
  }
  std::string driver_version() {
    std::array<char, 96> text{};
    return call<int(char*, unsigned)>("nvmlSystemGetDriverVersion", text.data(),
                                      static_cast<unsigned>(text.size()))
               ? text.data()
               : kUnknown;
  }
  std::string number(const char* function) {
    unsigned value = 0;
    return call<int(void*, unsigned*)>(function, device_, &value) ? std::to_string(value)
                                                                  : kUnknown;
  }

 private:
  /// Whether the function exists, and succeeds.
  template <class Function, class... Args>
  bool call(const char* name, Args... args) {
    auto* const function =
        library_ == nullptr ? nullptr : reinterpret_cast<Function*>(dlsym(library_, name));
    return function != nullptr && function(args...) == 0;
  }

  void* const library_;
  void* device_ = nullptr;
};

void add_facts_of_nvml(Facts& facts, const std::string& address) {
  Nvml nvml;
  if (!nvml.find(address)) {
    facts.emplace_back("NVML", kUnknown);
    return;
  }
  facts.emplace_back("driver", nvml.driver_version());
  facts.emplace_back("PCI generation", nvml.number("nvmlDeviceGetCurrPcieLinkGeneration"));
  facts.emplace_back("PCI generation at most", nvml.number("nvmlDeviceGetMaxPcieLinkGeneration"));
  facts.emplace_back("PCI lanes", nvml.number("nvmlDeviceGetCurrPcieLinkWidth"));
  facts.emplace_back("PCI lanes at most", nvml.number("nvmlDeviceGetMaxPcieLinkWidth"));
}

}  // namespace

Facts link_facts(const std::string& pci_address) {
  Facts facts;
  add_facts_of_nvml(facts, pci_address);
  add_facts_of_linux(facts, pci_address);
  return facts;
}

}  // namespace berth::campaign
