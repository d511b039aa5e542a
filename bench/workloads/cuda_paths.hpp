// SPDX-License-Identifier: Apache-2.0
// The calls about CUDA devices that every program makes often, and a backend for other devices,
// which must not change what they cost.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "berth/device_backend.hpp"
#include "berth/device_guard.hpp"

#include "support/session.hpp"

namespace berth::bench {

/// Devices over host memory, whose operations end at once.
class HostBackend final : public DeviceBackend {
 public:
  [[nodiscard]] std::string name() const override { return "host memory"; }
  [[nodiscard]] int count() const override { return 4; }
  [[nodiscard]] DeviceDescription describe(int index) const override {
    return {.name = "host " + std::to_string(index),
            .kind = "host",
            .memory_bytes = {},
            .attributes = {}};
  }
  [[nodiscard]] std::unique_ptr<Buffer> create_buffer(int /*index*/,
                                                      std::span<const std::byte> content,
                                                      Done done) override {
    auto buffer = std::make_unique<Bytes>();
    buffer->bytes.assign(content.begin(), content.end());
    done(nullptr);
    return buffer;
  }
  void read(const Buffer& source, std::size_t offset, std::span<std::byte> target,
            Done done) override {
    std::memcpy(target.data(), static_cast<const Bytes&>(source).bytes.data() + offset,
                target.size());
    done(nullptr);
  }
  [[nodiscard]] std::unique_ptr<Buffer> copy(const Buffer& source, int index, Done done) override {
    return create_buffer(index, static_cast<const Bytes&>(source).bytes, std::move(done));
  }

 private:
  struct Bytes final : Buffer {
    std::vector<std::byte> bytes;
  };
};

/// A registered backend, with a buffer on it.
class UsedBackend {
 public:
  explicit UsedBackend(Session& session) {
    session.runtime().register_backend("host_bench", std::make_unique<HostBackend>());
    const DeviceType type = DeviceType::register_name("host_bench");
    buffer_ =
        session.runtime().buffers().create(Device::of(type, 1), content_.data(), content_.size());
    buffer_.ready().wait();
  }

 private:
  const std::array<std::byte, 64> content_{};
  DeviceBuffer buffer_;
};

class LookUpMemory {
 public:
  explicit LookUpMemory(Session& session)
      : runtime_(session.runtime()), device_(session.device()) {}
  void step() { found_ += runtime_.memory(device_).device() == device_ ? 1 : 0; }

 private:
  Runtime& runtime_;
  const Device device_;
  std::size_t found_ = 0;
};

class ResolveDevice {
 public:
  explicit ResolveDevice(Session& session) : devices_(session.runtime().devices()) {}
  void step() { sum_ += devices_.resolve(Device::cuda(0)).ordinal(); }

 private:
  const DeviceRegistry& devices_;
  int sum_ = 0;
};

class EnterDevice {
 public:
  explicit EnterDevice(Session& session)
      : devices_(session.runtime().devices()), device_(session.device()) {}
  void step() { const DeviceGuard guard(devices_, device_); }

 private:
  const DeviceRegistry& devices_;
  const Device device_;
};

/// Copies of pageable memory to the device.
class SmallCopies {
 public:
  explicit SmallCopies(Session& session)
      : copier_(session.runtime().copier()),
        stream_(session.stream()),
        target_(session.runtime().memory(session.device()).allocate(kBytes, stream_)) {}
  void step() { copier_.copy_async(target_.data(), source_.data(), kBytes, stream_); }

 private:
  static constexpr std::size_t kBytes = 8;

  Copier& copier_;
  const StreamRef stream_;
  const Allocation target_;
  const std::array<std::byte, kBytes> source_{};
};

}  // namespace berth::bench
