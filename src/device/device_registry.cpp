// SPDX-License-Identifier: Apache-2.0
#include "berth/device_registry.hpp"

#include <unistd.h>
#include <utility>

#include <fmt/format.h>

#include "base/env.hpp"
#include "device/device_context.hpp"
#include "device/physical_devices.hpp"
#include "device/visible_devices.hpp"

namespace berth {

struct DeviceRegistry::State {
  const Driver& driver;
  std::vector<DeviceInfo> physical;
  std::vector<std::unique_ptr<DeviceContext>> contexts;  ///< by logical ordinal
  std::string problem;
};

namespace {

/// What is wrong with the variable; empty where nothing is, or where nothing can be said because
/// NVML, which alone knows the hidden devices, is missing.
std::string find_visibility_problem(const std::vector<DeviceInfo>& devices, std::size_t shown,
                                    const Nvml& nvml) {
  const std::optional<std::string> text = env("CUDA_VISIBLE_DEVICES");
  if (!text || !nvml.usable()) return {};
  std::vector<std::string> uuids;
  for (const DeviceInfo& device : devices) uuids.push_back(device.uuid);
  const VisibleDevices named = resolve_visible_devices(text, uuids);
  if (named.problem.empty() && named.devices.size() != shown &&
      text->find("MIG-") == std::string::npos) {
    return fmt::format(
        "CUDA_VISIBLE_DEVICES=\"{}\" names {} devices, but the driver shows {}: it reads the "
        "variable once in a process, so a later change has no effect",
        *text, named.devices.size(), shown);
  }
  return named.problem;
}

MemoryInfo host_memory_info() {
  const auto page = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  return {page * static_cast<std::uint64_t>(sysconf(_SC_AVPHYS_PAGES)),
          page * static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES))};
}

std::string list_devices(int count) {
  switch (count) {
    case 0:
      return "there are no CUDA devices";
    case 1:
      return "there is cuda:0";
    default:
      return fmt::format("there are cuda:0 to cuda:{}", count - 1);
  }
}

}  // namespace

DeviceRegistry::DeviceRegistry(const Driver& driver, const Nvml& nvml)
    : state_(new State{driver, {}, {}, {}}) {
  std::vector<DeviceInfo> visible = read_visible_devices(driver);
  for (const DeviceInfo& info : visible) {
    CUdevice native = 0;
    driver.device_get(&native, *info.logical);
    state_->contexts.push_back(
        std::make_unique<DeviceContext>(driver, Device::cuda(*info.logical), native));
  }
  state_->physical = join_devices(std::move(visible), nvml.devices());
  state_->problem = find_visibility_problem(state_->physical, state_->contexts.size(), nvml);
  if (!state_->problem.empty()) driver.report(Severity::warning, state_->problem);
}

DeviceRegistry::~DeviceRegistry() = default;

int DeviceRegistry::count() const noexcept {
  return static_cast<int>(state_->contexts.size());
}

const std::vector<DeviceInfo>& DeviceRegistry::physical_devices() const noexcept {
  return state_->physical;
}

const std::string& DeviceRegistry::visibility_problem() const noexcept {
  return state_->problem;
}

Device DeviceRegistry::resolve(Device device) const {
  if (!device.is_cuda()) return device;
  if (device.has_ordinal() && device.ordinal() < count()) return device;
  if (!device.has_ordinal() && count() > 0) return current();

  std::string message =
      fmt::format("{}: no such device: {}", device.to_string(), list_devices(count()));
  const std::string& driver_problem = state_->driver.problem();
  if (!state_->problem.empty()) {
    message += "; " + state_->problem;
  } else if (!driver_problem.empty()) {
    message += "; driver \"" + state_->driver.name() + "\": " + driver_problem;
  }
  throw InvalidArgument(message);
}

Device DeviceRegistry::current() const {
  if (count() == 0) return resolve(Device::cuda(0));
  CUcontext current = nullptr;
  state_->driver.ctx_get_current(&current);
  if (current == nullptr) return Device::cuda(0);
  CUdevice native = 0;
  const CUresult result = state_->driver.try_ctx_get_device(&native);
  // Another owner may have destroyed the context that this thread left current: as good as none.
  if (result == CUDA_ERROR_CONTEXT_IS_DESTROYED) return Device::cuda(0);
  if (result != CUDA_SUCCESS) state_->driver.raise(DriverCall::ctx_get_device, result);
  for (const auto& context : state_->contexts) {
    if (context->native() == native) return context->device();
  }
  return Device::cuda(0);
}

void DeviceRegistry::set_current(Device device) const {
  state_->driver.ctx_set_current(context(device).primary());
}

MemoryInfo DeviceRegistry::memory_info(Device device) const {
  if (!device.is_cuda()) return host_memory_info();
  const ContextScope scope(context(device));
  std::size_t bytes_free = 0;
  std::size_t bytes_total = 0;
  state_->driver.mem_get_info(&bytes_free, &bytes_total);
  return {bytes_free, bytes_total};
}

DeviceContext& DeviceRegistry::context(Device device) const {
  const Device resolved = resolve(device);
  if (!resolved.is_cuda()) {
    throw InvalidArgument(fmt::format("cpu is not accepted here; accepted: a CUDA device ({})",
                                      list_devices(count())));
  }
  return *state_->contexts[static_cast<std::size_t>(resolved.ordinal())];
}

DeviceGuard::DeviceGuard(const DeviceRegistry& registry, Device device)
    : context_(&registry.context(device)) {
  context_->driver().ctx_push_current(context_->primary());
}

DeviceGuard::~DeviceGuard() {
  CUcontext popped = nullptr;
  context_->driver().ctx_pop_current_or_report(&popped);
}

}  // namespace berth
