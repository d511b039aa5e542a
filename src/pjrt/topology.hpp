// SPDX-License-Identifier: Apache-2.0
// The devices of a topology, which need not exist: they are described, and have no memory.
#pragma once

#include <string>
#include <vector>

#include "berth/device_backend.hpp"
#include "berth/pjrt.hpp"

#include "pjrt/api.hpp"

namespace berth::pjrt {

class PjrtTopology final : public DeviceBackend {
 public:
  /// Errors  As open_pjrt().
  PjrtTopology(const Api& api, std::string name, const std::vector<PjrtOption>& options);
  ~PjrtTopology() override;

  [[nodiscard]] std::string name() const override;
  [[nodiscard]] std::vector<DeviceAttribute> attributes() const override;
  [[nodiscard]] int count() const override { return static_cast<int>(descriptions_.size()); }
  /// The device's own attributes, then those of the topology.
  [[nodiscard]] DeviceDescription describe(int index) const override;
  // Errors  All other functions: NotSupported.
  [[nodiscard]] std::unique_ptr<Buffer> create_buffer(int, std::span<const std::byte>,
                                                      Done) override {
    refuse();
  }
  void read(const Buffer&, std::size_t, std::span<std::byte>, Done) override { refuse(); }
  [[nodiscard]] std::unique_ptr<Buffer> copy(const Buffer&, int, Done) override { refuse(); }

 private:
  [[noreturn]] void refuse() const;

  const Api& api_;
  const std::string topology_name_;
  Topology* topology_ = nullptr;
  std::vector<Description*> descriptions_;
};

}  // namespace berth::pjrt
