// SPDX-License-Identifier: Apache-2.0
#include "berth/device_registry.hpp"

#include <algorithm>
#include <set>
#include <unistd.h>
#include <utility>

#include "base/check.hpp"
#include "base/env.hpp"
#include "base/fork_safe_mutex.hpp"
#include "base/format.hpp"
#include "base/quoted.hpp"
#include "device/backend_table.hpp"
#include "device/backend_visibility.hpp"
#include "device/device_context.hpp"
#include "device/device_node.hpp"
#include "device/fact_store.hpp"
#include "device/known_context.hpp"
#include "device/physical_devices.hpp"
#include "device/proc_devices.hpp"
#include "device/visibility.hpp"
#include "driver/nvml.hpp"

namespace berth {

struct BERTH_HIDDEN DeviceRegistry::State {
  const Driver& driver;
  const Nvml& nvml;
  DeviceList list;
  VisibilityVariables variables;  ///< as CUDA has read them
  std::unique_ptr<Visibility> visibility;
  std::vector<std::unique_ptr<DeviceContext>> contexts;  ///< by logical ordinal
  std::vector<const DeviceInfo*> infos;                  ///< by logical ordinal
  std::unique_ptr<FactStore> facts;
  std::unique_ptr<BackendTable> backends;
  ForkSafeMutex mutex;
  /// Texts that visibility_problem() returned after a change of the environment, kept because
  /// callers have references.
  std::set<std::string> later_problems BERTH_GUARDED_BY(mutex);

  /// The difference of the variable from the value that CUDA has read; empty if there is none.
  [[nodiscard]] std::string find_change() const;
  [[nodiscard]] FactSubject fact_subject(const DeviceContext& context) const;
  /// "accepted: cpu, and CUDA devices (there is cuda:0)", and the devices of backends.
  [[nodiscard]] std::string list_all() const;
  /// Errors  InvalidArgument: `device` is none of `backend`.
  [[nodiscard]] Device resolve(const RegisteredBackend& backend, Device device) const;
};

namespace {

constexpr const char* kVariable = "CUDA_VISIBLE_DEVICES";

std::string said_to_be(const std::optional<std::string>& value) {
  return value ? format_text("\"{}\"", on_one_line(*value)) : "not set";
}

MemoryInfo host_memory_info() {
  const auto page = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  return {page * static_cast<std::uint64_t>(sysconf(_SC_AVPHYS_PAGES)),
          page * static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES))};
}

std::string list_cuda_devices(int count) {
  return list_devices(DeviceType::cuda(), count, "CUDA");
}

/// The result of memory_info() for a device of a backend.
MemoryInfo backend_memory_info(Device device, const DeviceDescription& description,
                               const BackendMemory& memory) {
  const std::optional<std::uint64_t> total =
      memory.bytes_limit ? memory.bytes_limit : description.memory_bytes;
  if (!total || !memory.bytes_used) {
    throw NotSupported(
        format_text("the backend of {} does not report its memory in use and its "
                    "limit; DeviceRegistry::device_memory() has what it reports",
                    device.to_string()));
  }
  return {*total - std::min(*total, *memory.bytes_used), *total};
}

}  // namespace

std::string DeviceRegistry::State::find_change() const {
  const std::optional<std::string> now = env(kVariable);
  if (now == variables.visible) return {};
  return format_text("{} was {} when CUDA read it, and is {} now, which has no effect", kVariable,
                     said_to_be(variables.visible), said_to_be(now));
}

FactSubject DeviceRegistry::State::fact_subject(const DeviceContext& context) const {
  const auto ordinal = static_cast<std::size_t>(context.device().ordinal());
  const int physical = infos[ordinal]->physical;
  return {ordinal, context.native(), physical,
          list.devices[static_cast<std::size_t>(physical)].uuid};
}

std::string DeviceRegistry::State::list_all() const {
  std::string text = format_text("cpu, and CUDA devices ({})",
                                 list_cuda_devices(static_cast<int>(contexts.size())));
  const std::string others = backends->list();
  return others.empty() ? text : text + ", and " + others;
}

Device DeviceRegistry::State::resolve(const RegisteredBackend& backend, Device device) const {
  const int ordinal = device.has_ordinal() ? device.ordinal() : 0;
  if (ordinal < backend.count()) return Device::of(backend.type, ordinal);
  throw InvalidArgument(format_text("{}: no such device: {}", device.to_string(), backend.list()));
}

DeviceRegistry::DeviceRegistry(const Driver& driver, const Nvml& nvml,
                               const std::string& proc_devices, const std::string& device_files)
    : state_(new State{driver,
                       nvml,
                       {},
                       {env(kVariable), env("CUDA_DEVICE_ORDER")},
                       {},
                       {},
                       {},
                       {},
                       std::make_unique<BackendTable>(),
                       {},
                       {}}) {
  const std::vector<ShownDevice> shown = read_shown_devices(driver);
  for (const CUdevice native : driver.devices()) {
    const int ordinal = static_cast<int>(state_->contexts.size());
    state_->contexts.push_back(
        std::make_unique<DeviceContext>(driver, Device::cuda(ordinal), native));
  }
  const std::vector<KnownDevice> of_kernel = read_proc_devices(proc_devices);
  std::vector<KnownDevice> known = nvml.usable() ? nvml.devices() : of_kernel;
  const bool all_known = !known.empty();
  DeviceList& list = state_->list;
  list = join_devices(shown, std::move(known));
  state_->facts = std::make_unique<FactStore>(driver, nvml, shown.size());
  state_->infos.resize(shown.size());
  for (const auto* part : {&list.devices, &list.instances}) {
    for (const DeviceInfo& info : *part) {
      if (!info.logical) continue;
      const DeviceInfo*& place = state_->infos.at(static_cast<std::size_t>(*info.logical));
      BERTH_CHECK(place == nullptr);  // one device for each ordinal
      place = &info;
    }
  }
  BERTH_CHECK(std::ranges::count(state_->infos, nullptr) == 0);
  std::vector<std::string> node_faults;
  for (const DeviceInfo& info : list.devices)
    node_faults.push_back(find_node_fault(of_kernel, info.pci_bus_id, device_files));
  state_->visibility =
      std::make_unique<Visibility>(list, state_->variables,
                                   VisibilitySource{.all_known = all_known,
                                                    .driver_version = driver.version(),
                                                    .driver_problem = driver.problem(),
                                                    .node_faults = std::move(node_faults)});
  const std::string& problem = state_->visibility->problem();
  if (!problem.empty()) driver.report(Severity::warning, problem);
}

DeviceRegistry::~DeviceRegistry() = default;

int DeviceRegistry::count() const noexcept {
  return static_cast<int>(state_->contexts.size());
}

const std::vector<DeviceInfo>& DeviceRegistry::physical_devices() const noexcept {
  return state_->list.devices;
}

const std::vector<DeviceInfo>& DeviceRegistry::mig_instances() const noexcept {
  return state_->list.instances;
}

const DeviceInfo& DeviceRegistry::info(Device device) const {
  return *state_->infos[static_cast<std::size_t>(context(device).device().ordinal())];
}

const std::string& DeviceRegistry::visibility_problem() const {
  const std::string& problem = state_->visibility->problem();
  std::string change = state_->find_change();
  if (change.empty()) return problem;
  if (!problem.empty()) change += "; " + problem;
  const MutexLock lock(state_->mutex);
  return *state_->later_problems.insert(std::move(change)).first;
}

const std::optional<std::string>& DeviceRegistry::visible_devices() const noexcept {
  return state_->variables.visible;
}

const std::string& DeviceRegistry::nvml_problem() const noexcept {
  return state_->nvml.problem();
}

std::vector<DeviceExplanation> DeviceRegistry::explain() const {
  return state_->visibility->explain(state_->find_change());
}

std::vector<DeviceExplanation> DeviceRegistry::explain(DeviceType type) const {
  if (type == DeviceType::cuda()) return explain();
  return explain_backend(type, state_->backends->find(type), state_->backends->problem(type));
}

Device DeviceRegistry::resolve(Device device) const {
  if (device.is_cpu()) return device;
  if (!device.is_cuda()) {
    if (const RegisteredBackend* backend = state_->backends->find(device.type()))
      return state_->resolve(*backend, device);
    state_->backends->refuse_unmanaged(device, state_->list_all());
  }
  if (device.has_ordinal() && device.ordinal() < count()) return device;
  if (!device.has_ordinal() && count() > 0) return current();

  std::string message =
      format_text("{}: no such device: {}", device.to_string(), list_cuda_devices(count()));
  const std::string& driver_problem = state_->driver.problem();
  const std::string& problem = visibility_problem();
  if (!problem.empty()) {
    message += "; " + problem;
  } else if (!driver_problem.empty()) {
    message += "; driver \"" + state_->driver.name() + "\": " + driver_problem;
  }
  if (problem.empty() && count() == 0) message += all_hidden_hint(state_->variables.visible);
  throw InvalidArgument(message);
}

Device DeviceRegistry::current() const {
  if (count() == 0) return resolve(Device::cuda(0));
  CUcontext current = nullptr;
  state_->driver.ctx_get_current(&current);
  KnownContext::compare(current);
  if (current == nullptr) return Device::cuda(0);
  CUdevice native = 0;
  const CUresult result = state_->driver.try_ctx_get_device(&native);
  // Another owner may have destroyed the context that is current on this thread, which counts as
  // none.
  if (result == CUDA_ERROR_CONTEXT_IS_DESTROYED) return Device::cuda(0);
  if (result != CUDA_SUCCESS) state_->driver.raise(DriverCall::ctx_get_device, result);
  for (const auto& context : state_->contexts) {
    if (context->native() == native) return context->device();
  }
  return Device::cuda(0);
}

void DeviceRegistry::set_current(Device device) const {
  DeviceContext& wanted = context(device);
  state_->driver.ctx_set_current(wanted.primary());
  KnownContext::set(&wanted);
  KnownContext::set_observed(wanted.primary());
}

MemoryInfo DeviceRegistry::memory_info(Device device) const {
  if (device.is_cpu()) return host_memory_info();
  if (!device.is_cuda()) {
    const Device resolved = resolve(device);  // whose error lists the devices of all types
    const BackendMemory memory = device_memory(resolved);
    return backend_memory_info(device, describe(resolved), memory);
  }
  const ContextScope scope(context(device));
  std::size_t bytes_free = 0;
  std::size_t bytes_total = 0;
  state_->driver.mem_get_info(&bytes_free, &bytes_total);
  return {bytes_free, bytes_total};
}

const DeviceFacts& DeviceRegistry::facts(Device device) const {
  return state_->facts->facts(state_->fact_subject(context(device)));
}

const PeerFacts& DeviceRegistry::peer(Device from, Device to) const {
  return state_->facts->peer(state_->fact_subject(context(from)),
                             state_->fact_subject(context(to)));
}

DeviceMemoryUse DeviceRegistry::memory_use(Device device) const {
  const std::string& uuid = info(device).uuid;
  state_->driver.require_here();
  DeviceMemoryUse use;
  if (const auto memory = state_->nvml.memory(uuid)) {
    use.bytes_total = memory->total;
    use.bytes_used = memory->used;
  }
  if (const auto processes = state_->nvml.processes(uuid)) {
    use.processes.emplace();
    for (const Nvml::Process& process : *processes) {
      use.processes->push_back({process.pid, process.bytes});
    }
  }
  return use;
}

std::optional<int> DeviceRegistry::utilization_percent(Device device) const {
  const std::string& uuid = info(device).uuid;
  state_->driver.require_here();
  const auto utilization = state_->nvml.utilization(uuid);
  return utilization ? std::optional(static_cast<int>(utilization->gpu)) : std::nullopt;
}

DeviceContext& DeviceRegistry::context(Device device) const {
  const auto& contexts = state_->contexts;
  if (device.is_cuda() && device.has_ordinal()) {
    const auto ordinal = static_cast<std::size_t>(device.ordinal());
    if (ordinal < contexts.size()) return *contexts[ordinal];
  }
  if (device.is_cuda()) return *contexts[static_cast<std::size_t>(resolve(device).ordinal())];
  const std::string accepted = format_text("a CUDA device ({})", list_cuda_devices(count()));
  if (!device.is_cpu() && state_->backends->find(device.type()) == nullptr)
    state_->backends->refuse_unmanaged(device, accepted);
  throw InvalidArgument(
      format_text("{} is not accepted here{}; accepted: {}", resolve(device).to_string(),
                  device.is_cpu() ? ""
                                  : ": its backend has buffers (Runtime::buffers()), but no "
                                    "streams, contexts or addresses",
                  accepted));
}

const RegisteredBackend& DeviceRegistry::backend(Device device) const {
  const BackendTable& backends = *state_->backends;
  if (const RegisteredBackend* backend = backends.find(device.type())) {
    static_cast<void>(state_->resolve(*backend, device));
    return *backend;
  }
  const std::string listed = backends.list();
  const std::string accepted =
      listed.empty() ? "none, until Runtime::register_backend() adds a type of devices" : listed;
  if (!device.is_cpu() && !device.is_cuda()) backends.refuse_unmanaged(device, accepted);
  throw InvalidArgument(
      format_text("{} has no backend: its memory comes from an allocator; accepted: {}",
                  resolve(device).to_string(), accepted));
}

int DeviceRegistry::count(DeviceType type) const noexcept {
  if (type == DeviceType::cpu()) return 1;
  if (type == DeviceType::cuda()) return count();
  const RegisteredBackend* const backend = state_->backends->find(type);
  return backend == nullptr ? 0 : backend->count();
}

std::vector<DeviceType> DeviceRegistry::types() const {
  std::vector<DeviceType> types = {DeviceType::cpu(), DeviceType::cuda()};
  for (const RegisteredBackend* backend : state_->backends->all()) types.push_back(backend->type);
  return types;
}

DeviceDescription DeviceRegistry::describe(Device device) const {
  const Device resolved = resolve(device);
  if (resolved.is_cpu()) return {"cpu", "cpu", host_memory_info().bytes_total, {}};
  if (resolved.is_cuda()) {
    const DeviceInfo& known = info(resolved);
    DeviceDescription description = {resolved.to_string(), known.name, std::nullopt, {}};
    if (known.memory_bytes != 0) description.memory_bytes = known.memory_bytes;
    // One by one: if a copy fails, GCC 12 destroys elements of a list that it has not created.
    description.attributes.push_back({"uuid", known.uuid});
    description.attributes.push_back({"pci_bus_id", known.pci_bus_id});
    return description;
  }
  return backend(resolved).devices[static_cast<std::size_t>(resolved.ordinal())];
}

BackendMemory DeviceRegistry::device_memory(Device device) const {
  const RegisteredBackend& owner = backend(device);
  owner.origin.require_here("the backend of a device");
  return owner.backend->memory(resolve(device).ordinal());
}

std::string DeviceRegistry::backend_name(DeviceType type) const {
  const RegisteredBackend* const backend = state_->backends->find(type);
  return backend == nullptr ? std::string() : backend->name;
}

std::vector<DeviceAttribute> DeviceRegistry::backend_attributes(DeviceType type) const {
  const RegisteredBackend* const backend = state_->backends->find(type);
  return backend == nullptr ? std::vector<DeviceAttribute>() : backend->attributes;
}

std::string DeviceRegistry::backend_problem(DeviceType type) const {
  return state_->backends->problem(type);
}

void DeviceRegistry::register_backend(DeviceType type, std::unique_ptr<DeviceBackend> backend) {
  state_->backends->add(type, std::move(backend));
}

void DeviceRegistry::require_no_backend(DeviceType type) const {
  state_->backends->require_free(type);
}

void DeviceRegistry::note_backend_problem(DeviceType type, const std::string& problem) {
  state_->backends->note_problem(type, problem);
}

int toolkit_version() noexcept {
  return CUDA_VERSION;
}

}  // namespace berth
