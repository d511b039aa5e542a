// SPDX-License-Identifier: Apache-2.0
#include <cstring>
#include <optional>
#include <vector>

#include "pjrt/plugin/machine.hpp"

namespace berth::pjrt {
namespace {

class HostStorage final : public Storage {
 public:
  explicit HostStorage(std::size_t bytes) : Storage(bytes), memory_(bytes) {}

  Write write(std::size_t offset, const void* source, std::size_t bytes) override {
    std::memcpy(memory_.data() + offset, source, bytes);
    return {};
  }
  Started read(std::size_t offset, void* target, std::size_t bytes) override {
    std::memcpy(target, memory_.data() + offset, bytes);
    return nullptr;
  }
  Started copy_from(Storage& source) override { return source.read(0, memory_.data(), bytes()); }
  Started written() override { return nullptr; }

 private:
  std::vector<std::byte> memory_;
};

class HostMachine final : public Machine {
 public:
  std::shared_ptr<Storage> allocate(int /*device*/, std::size_t bytes) override {
    return std::make_shared<HostStorage>(bytes);
  }
  std::optional<Usage> usage(int /*device*/) override { return std::nullopt; }
  void map(void* /*data*/, std::size_t /*bytes*/) override {}
  void unmap(void* /*data*/) override {}
};

}  // namespace

std::shared_ptr<Machine> make_host_machine() {
  return std::make_shared<HostMachine>();
}

}  // namespace berth::pjrt
