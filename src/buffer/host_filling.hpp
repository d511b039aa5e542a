// SPDX-License-Identifier: Apache-2.0
// Fills buffers of one device from host memory, part by part.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "berth/device_backend.hpp"

#include "buffer/host_task.hpp"

namespace berth {

class HostFilling final : public HostTask {
 public:
  using HostTask::HostTask;

  /// One more buffer. Before post().
  void add(std::unique_ptr<DeviceBackend::Filling> filling, std::span<const std::byte> source) {
    shards_.push_back({std::move(filling), source, hold_mapped(source)});
  }

 private:
  struct Shard {
    std::unique_ptr<DeviceBackend::Filling> filling;
    std::span<const std::byte> source;
    std::shared_ptr<const void> mapped;
  };

  void copy_all() override;
  /// Those that are destroyed before their last write fail.
  void release() noexcept override { shards_.clear(); }

  std::vector<Shard> shards_;
};

}  // namespace berth
