// SPDX-License-Identifier: Apache-2.0
// The facts of visible devices, each read at the first query and then kept.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <memory>
#include <string>

#include "berth/device_facts.hpp"

#include "driver/driver.hpp"
#include "driver/nvml.hpp"
#include "driver/once_value.hpp"

namespace berth {

/// The properties of a visible device that its facts need.
struct FactSubject {
  std::size_t ordinal;
  CUdevice native;
  int physical;
  std::string device_uuid;  ///< of the whole device, also if this is one of its instances
};

/// Threads  Safe from any thread.
/// Forks    Facts that were read before stay readable in a child; others throw NotSupported.
class FactStore {
 public:
  FactStore(const Driver& driver, const Nvml& nvml, std::size_t devices);

  const DeviceFacts& facts(const FactSubject& device);
  const PeerFacts& peer(const FactSubject& from, const FactSubject& to);

 private:
  [[nodiscard]] PeerFacts read_peer(const FactSubject& from, const FactSubject& to) const;
  [[nodiscard]] std::optional<PeerLink> read_link(const FactSubject& from,
                                                  const FactSubject& to) const;

  const Driver& driver_;
  const Nvml& nvml_;
  const std::size_t devices_;
  std::unique_ptr<OnceValue<DeviceFacts>[]> facts_;  ///< by ordinal
  std::unique_ptr<OnceValue<PeerFacts>[]> peers_;    ///< by ordinal of `from`, then of `to`
};

}  // namespace berth
