// SPDX-License-Identifier: Apache-2.0
// Reads buffers of one device into host memory, part by part.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "berth/device_backend.hpp"

#include "buffer/host_task.hpp"

namespace berth {

class HostReading final : public HostTask {
 public:
  using HostTask::HostTask;

  /// One more range of a buffer, which may lose its owner meanwhile. Before post().
  void add(std::shared_ptr<const DeviceBackend::Buffer> source, std::size_t offset,
           std::span<std::byte> target) {
    shards_.push_back({std::move(source), offset, target, hold_mapped(target)});
  }

 private:
  struct Shard {
    std::shared_ptr<const DeviceBackend::Buffer> source;
    std::size_t offset;
    std::span<std::byte> target;
    std::shared_ptr<const void> mapped;
  };

  void copy_all() override;
  void release() noexcept override { shards_.clear(); }

  std::vector<Shard> shards_;
};

}  // namespace berth
