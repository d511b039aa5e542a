// SPDX-License-Identifier: Apache-2.0
// Source: CUDA Driver API, "Device Management", "Peer Context Memory Access"; NVML API Reference
// Guide, "Device Queries".
#include "device/fact_store.hpp"

#include "base/check.hpp"

namespace berth {
namespace {

std::optional<int> attribute(const Driver& driver, CUdevice device, CUdevice_attribute which) {
  int value = 0;
  if (driver.try_device_get_attribute(&value, which, device) != CUDA_SUCCESS) return std::nullopt;
  return value;
}

std::optional<ComputeMode> compute_mode(std::optional<int> said) {
  if (said == CU_COMPUTEMODE_DEFAULT) return ComputeMode::shared;
  if (said == CU_COMPUTEMODE_PROHIBITED) return ComputeMode::prohibited;
  if (said == CU_COMPUTEMODE_EXCLUSIVE_PROCESS) return ComputeMode::exclusive_process;
  return std::nullopt;
}

DeviceFacts read_facts(const Driver& driver, CUdevice device) {
  const auto ask = [&](CUdevice_attribute which) { return attribute(driver, device, which); };
  DeviceFacts facts;
  facts.compute_capability_major = ask(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
  facts.compute_capability_minor = ask(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
  facts.multiprocessors = ask(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  facts.copy_engines = ask(CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT);
  facts.host_numa_node = ask(CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID);
  if (facts.host_numa_node == -1) facts.host_numa_node.reset();  // a machine without NUMA
  facts.compute_mode = compute_mode(ask(CU_DEVICE_ATTRIBUTE_COMPUTE_MODE));
  return facts;
}

std::optional<int> p2p_attribute(const Driver& driver, CUdevice_P2PAttribute which,
                                 const FactSubject& from, const FactSubject& to) {
  int value = 0;
  const CUresult result =
      driver.try_device_get_p2p_attribute(&value, which, from.native, to.native);
  return result == CUDA_SUCCESS ? std::optional(value) : std::nullopt;
}

PeerLink link_of(nvml::TopologyLevel level) {
  if (level <= nvml::kTopologyInternal) return PeerLink::same_device;
  if (level <= nvml::kTopologyMultiple) return PeerLink::pci_switch;
  if (level <= nvml::kTopologyHostbridge) return PeerLink::host_bridge;
  return level <= nvml::kTopologyNode ? PeerLink::numa_node : PeerLink::system;
}

}  // namespace

FactStore::FactStore(const Driver& driver, const Nvml& nvml, std::size_t devices)
    : driver_(driver),
      nvml_(nvml),
      devices_(devices),
      facts_(new OnceValue<DeviceFacts>[devices]),
      peers_(new OnceValue<PeerFacts>[devices * devices]) {}

const DeviceFacts& FactStore::facts(const FactSubject& device) {
  BERTH_CHECK(device.ordinal < devices_);
  return facts_[device.ordinal].get(driver_, [&] { return read_facts(driver_, device.native); });
}

const PeerFacts& FactStore::peer(const FactSubject& from, const FactSubject& to) {
  BERTH_CHECK(from.ordinal < devices_ && to.ordinal < devices_);
  OnceValue<PeerFacts>& pair = peers_[from.ordinal * devices_ + to.ordinal];
  return pair.get(driver_, [&] { return read_peer(from, to); });
}

PeerFacts FactStore::read_peer(const FactSubject& from, const FactSubject& to) const {
  if (from.ordinal == to.ordinal) return {true, true, 0, PeerLink::same_device};
  PeerFacts facts;
  int can = 0;
  if (driver_.try_device_can_access_peer(&can, from.native, to.native) == CUDA_SUCCESS) {
    facts.access = can != 0;
  }
  if (const auto atomics =
          p2p_attribute(driver_, CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED, from, to)) {
    facts.native_atomics = *atomics != 0;
  }
  facts.performance_rank =
      p2p_attribute(driver_, CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK, from, to);
  facts.link = read_link(from, to);
  return facts;
}

std::optional<PeerLink> FactStore::read_link(const FactSubject& from, const FactSubject& to) const {
  if (from.physical == to.physical) return PeerLink::same_device;
  if (nvml_.has_nvlink(from.device_uuid, to.device_uuid).value_or(false)) return PeerLink::nvlink;
  const auto level = nvml_.topology(from.device_uuid, to.device_uuid);
  return level ? std::optional(link_of(*level)) : std::nullopt;
}

}  // namespace berth
