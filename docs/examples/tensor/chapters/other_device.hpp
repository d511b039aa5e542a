// SPDX-License-Identifier: Apache-2.0
// Devices of another type than berth has: those of a plug-in, or else two that are host memory.
#pragma once

#include <algorithm>

#include "../core/library.hpp"

namespace mini {

class HostDevices final : public berth::DeviceBackend {
 public:
  [[nodiscard]] std::string name() const override { return "two devices in host memory"; }
  [[nodiscard]] int count() const override { return 2; }
  [[nodiscard]] berth::DeviceDescription describe(int index) const override {
    return {"host memory " + std::to_string(index), "host memory", {}, {}};
  }
  [[nodiscard]] std::unique_ptr<Buffer> create_buffer(int, std::span<const std::byte> content,
                                                      Done done) override {
    auto made = std::make_unique<Bytes>();
    made->bytes.assign(content.begin(), content.end());
    done(nullptr);
    return made;
  }
  void read(const Buffer& source, std::size_t offset, std::span<std::byte> target,
            Done done) override {
    const auto& bytes = static_cast<const Bytes&>(source).bytes;
    std::copy_n(bytes.begin() + std::ptrdiff_t(offset), target.size(), target.begin());
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

/// Does nothing if BERTH_CONF has named a plug-in for the type.
inline void provide_devices(const char* name) {
  const berth::DeviceType type = berth::DeviceType::register_name(name);
  if (const std::string problem = devices().backend_problem(type); !problem.empty())
    throw berth::NotSupported(problem);
  if (!devices().is_available(type))
    library().runtime.register_backend(name, std::make_unique<HostDevices>());
}

}  // namespace mini
