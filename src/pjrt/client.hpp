// SPDX-License-Identifier: Apache-2.0
// The devices of a PJRT client as a backend. A buffer is a 1-D array of bytes.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "berth/device_backend.hpp"
#include "berth/pjrt.hpp"

#include "pjrt/event_watch.hpp"

namespace berth::pjrt {

class NativeShare;
class PjrtBuffer;

class PjrtClient final : public DeviceBackend {
 public:
  /// Errors  As open_pjrt().
  PjrtClient(const Api& api, const std::vector<PjrtOption>& options);
  ~PjrtClient() override;

  [[nodiscard]] std::string name() const override;
  [[nodiscard]] std::vector<DeviceAttribute> attributes() const override;
  [[nodiscard]] int count() const override { return static_cast<int>(devices_.size()); }
  [[nodiscard]] DeviceDescription describe(int index) const override;
  [[nodiscard]] BackendMemory memory(int index) const override;
  [[nodiscard]] std::unique_ptr<Buffer> create_buffer(int index, std::span<const std::byte> content,
                                                      Done done) override;
  [[nodiscard]] Begun begin_buffer(int index, std::size_t bytes) override;
  void read(const Buffer& source, std::size_t offset, std::span<std::byte> target,
            Done done) override;
  [[nodiscard]] bool reads_parts() const override {
    return has_raw_reads_.load(std::memory_order_relaxed);
  }
  [[nodiscard]] std::unique_ptr<Buffer> copy(const Buffer& source, int index, Done done) override;
  [[nodiscard]] bool map_host_memory(std::span<std::byte> memory) override;
  void unmap_host_memory(std::byte* memory) override;

 private:
  class PartRead;

  [[nodiscard]] Device* device(int index) const {
    return devices_[static_cast<std::size_t>(index)];
  }
  [[nodiscard]] Memory* memory_of(int index) const;
  void read_devices();
  /// False if the plug-in reads whole buffers only; nothing has begun then.
  bool try_read_raw(const PjrtBuffer& buffer, std::size_t offset, std::span<std::byte> target,
                    const Done& done);
  void read_part_of_whole(NativeShare source, std::size_t offset, std::span<std::byte> target,
                          Done done);
  void read_whole(NativeShare source, std::byte* target, Done done);

  const Api& api_;
  std::optional<EventWatch> watch_;
  Client* client_ = nullptr;
  std::vector<Device*> devices_;
  std::atomic<bool> has_raw_reads_;  ///< as far as known
};

}  // namespace berth::pjrt
