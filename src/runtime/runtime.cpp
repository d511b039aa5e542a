// SPDX-License-Identifier: Apache-2.0
// Only composition. Members are destroyed from the last to the first, so each part is declared
// after the parts that it uses.
#include "berth/runtime.hpp"

#include <cstddef>
#include <exception>
#include <limits>
#include <vector>

#include "berth/configuration.hpp"
#include "berth/error.hpp"

#include "base/check.hpp"
#include "base/format.hpp"
#include "base/text_list.hpp"
#include "device/device_context.hpp"
#include "device/known_context.hpp"
#include "device/own_context.hpp"
#include "device/visible_variables.hpp"
#include "driver/once_value.hpp"
#include "pool/device_memory.hpp"
#include "runtime/driver_choice.hpp"
#include "stream/enable_peer_access.hpp"
#include "stream/join.hpp"
#include "stream/pool_options.hpp"

namespace berth {
namespace {

/// The parts of one device, each created by its first use.
struct DeviceParts {
  OnceValue<std::unique_ptr<EventPool>> events;
  OnceValue<std::unique_ptr<EventPool>> callback_events;  ///< without a bound
  OnceValue<std::unique_ptr<StreamPool>> streams;
  OnceValue<std::unique_ptr<DeviceAllocator>> memory;
};

/// Checks the options of parts that are created later. All other constructors check their own.
RuntimeOptions checked(RuntimeOptions options) {
  check_options(options.stream_pool);
  check_options(options.event_pool);
  check_options(options.device_allocator);
  return options;
}

/// open_pjrt(). If the plug-in refuses, the error has the variables that select devices of this
/// type.
std::unique_ptr<DeviceBackend> open_with_variables(const PjrtPlugin& plugin) {
  const auto with_variables = [&plugin](const Error& error) {
    std::string message = error.what();
    for (const DeviceAttribute& variable : visible_variables(plugin.type, {}))
      message += "; " + variable_text(variable);
    return message;
  };
  try {
    return open_pjrt(plugin);
  } catch (const BackendError& error) {
    throw BackendError(with_variables(error), error.driver_code());
  } catch (const OutOfMemory& error) {
    throw OutOfMemory(with_variables(error), error.driver_code());
  } catch (const Cancelled& error) {
    throw Cancelled(with_variables(error));
  } catch (const NotSupported& error) {
    if (error.driver_code() == 0) throw;  // berth does not support the plug-in
    throw NotSupported(with_variables(error), error.driver_code());
  }
}

}  // namespace

struct BERTH_HIDDEN Runtime::State {
  explicit State(RuntimeOptions given)
      : options(checked(given.read_environment ? configure_from_environment(std::move(given))
                                               : std::move(given))),
        opened(open_driver(options.driver, options.report)),
        registry(*opened.driver, *opened.nvml),
        parts(static_cast<std::size_t>(registry.count())),
        pinned(registry, options.pinned_allocator),
        host(registry, options.host_allocator),
        completions(
            [this](DeviceContext& context) -> EventPool& { return callback_events_of(context); }),
        copier(registry, pinned, host, completions, options.copier),
        collectives(
            registry, pinned, host, copier, completions,
            [this](DeviceContext& context) -> EventPool& { return events_of(context); },
            options.copier.direct_piece_bytes),
        buffers(registry, pinned, host, copier, options.report) {
    for (const PjrtPlugin& plugin : options.pjrt) register_plugin(plugin);
    options.driver = opened.driver->name();
  }

  /// A plug-in that cannot be used is a problem of its type only, as an unusable driver is one of
  /// `cuda`.
  void register_plugin(const PjrtPlugin& plugin) {
    const DeviceType type = DeviceType::register_name(plugin.type);
    registry.require_no_backend(type);
    try {
      registry.register_backend(type, open_with_variables(plugin));
    } catch (const Error& error) {
      registry.note_backend_problem(type, error.what());
      opened.driver->report(Severity::warning, [&] {
        return format_text("device type {} has no devices: {}", type.name(), error.what());
      });
    }
  }

  DeviceParts& parts_of(const DeviceContext& context) {
    const auto ordinal = static_cast<std::size_t>(context.device().ordinal());
    BERTH_CHECK(ordinal < parts.size());
    return parts[ordinal];
  }

  EventPool& events_of(DeviceContext& context) {
    require_own_context(registry, context, "given an event of this Runtime");
    return *parts_of(context).events.get(
        context.driver(), [&] { return std::make_unique<EventPool>(context, options.event_pool); });
  }

  EventPool& callback_events_of(DeviceContext& context) {
    require_own_context(registry, context, "given a callback of this Runtime");
    return *parts_of(context).callback_events.get(context.driver(), [&] {
      constexpr std::size_t kNoBound = std::numeric_limits<std::size_t>::max();
      return std::make_unique<EventPool>(context, EventPoolOptions{.events_max = kNoBound});
    });
  }

  [[nodiscard]] std::vector<BackendDevice> backend_devices() const {
    std::vector<BackendDevice> all;
    for (const DeviceType type : registry.types()) {
      if (type == DeviceType::cpu() || type == DeviceType::cuda()) continue;
      for (int ordinal = 0; ordinal < registry.count(type); ++ordinal) {
        const Device device = Device::of(type, ordinal);
        BackendDevice& added = all.emplace_back(
            BackendDevice{device, registry.backend_name(type), registry.describe(device), {}, {}});
        added.buffers = buffers.counters(device);
        try {
          added.memory = registry.device_memory(device);
        } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): not reported
        }
      }
    }
    return all;
  }

  RuntimeOptions options;  ///< with BERTH_CONF applied; never changed after construction
  const OpenedDriver opened;
  DeviceRegistry registry;
  std::vector<DeviceParts> parts;  ///< by logical ordinal
  PinnedAllocator pinned;
  HostAllocator host;
  CompletionQueue completions;
  Copier copier;
  Collectives collectives;
  DeviceBuffers buffers;
};

Runtime::Runtime(RuntimeOptions options) : state_(std::make_unique<State>(std::move(options))) {}

Runtime::~Runtime() {
  const Driver& driver = *state_->opened.driver;
  const std::size_t guards = driver.is_here() ? KnownContext::end_guards(driver) : 0;
  if (guards > 0) {
    driver.report(Severity::warning, [guards] {
      return format_text(
          "the Runtime ends within {} of its guards on this thread; accepted: each DeviceGuard and "
          "StreamGuard ends first",
          guards);
    });
  }
  state_->completions.finish();
}

DriverInfo Runtime::driver() const {
  const Driver& driver = *state_->opened.driver;
  return {driver.name(), driver.usable(), driver.problem(), driver.version()};
}

void* Runtime::driver_function(const char* name, int version) const {
  if (name == nullptr) {
    throw InvalidArgument("name is null; accepted: a driver function such as \"cuLaunchKernel\"");
  }
  const Driver& driver = *state_->opened.driver;
  return driver.usable() && driver.is_here() ? driver.find(name, version) : nullptr;
}

const RuntimeOptions& Runtime::options() const noexcept {
  return state_->options;
}

const DeviceRegistry& Runtime::devices() const noexcept {
  return state_->registry;
}

void Runtime::register_backend(DeviceType type, std::unique_ptr<DeviceBackend> backend) {
  state_->registry.register_backend(type, std::move(backend));
}

void Runtime::register_backend(std::string_view type, std::unique_ptr<DeviceBackend> backend) {
  register_backend(DeviceType::register_name(type), std::move(backend));
}

void Runtime::register_pjrt(std::string_view type, const std::string& path,
                            std::vector<PjrtOption> options) {
  const DeviceType registered = DeviceType::register_name(type);
  state_->registry.require_no_backend(registered);  // before the plug-in is loaded
  register_backend(registered, open_with_variables({std::string(type), path, std::move(options)}));
}

DeviceBuffers& Runtime::buffers() {
  return state_->buffers;
}

void Runtime::enable_peer_access(Device user, Device owner) {
  const DeviceRegistry& devices = state_->registry;
  DeviceContext& of_user = devices.context(user);
  DeviceContext& of_owner = devices.context(owner);
  if (&of_user == &of_owner) {
    throw InvalidArgument(
        format_text("{} needs no peer access to its own memory; accepted: two devices",
                    of_user.device().to_string()));
  }
  if (devices.peer(user, owner).access == false) {
    throw NotSupported(format_text("the driver reports that {} cannot access memory of {}",
                                   of_user.device().to_string(), of_owner.device().to_string()));
  }
  berth::enable_peer_access(of_user, of_owner);
}

StreamPool& Runtime::streams(Device device) {
  DeviceContext& context = state_->registry.context(device);
  return *state_->parts_of(context).streams.get(context.driver(), [&] {
    return std::make_unique<StreamPool>(context, state_->options.stream_pool);
  });
}

EventPool& Runtime::events(Device device) {
  return state_->events_of(state_->registry.context(device));
}

DeviceAllocator& Runtime::memory(Device device) {
  DeviceContext& context = state_->registry.context(device);
  return *state_->parts_of(context).memory.get(context.driver(), [&] {
    return std::make_unique<DeviceAllocator>(context, state_->events_of(context),
                                             state_->options.device_allocator);
  });
}

PinnedAllocator& Runtime::pinned_memory() {
  return state_->pinned;
}

HostAllocator& Runtime::host_memory() {
  return state_->host;
}

std::optional<MemoryBlock> Runtime::find(const void* data) {
  for (const DeviceParts& parts : state_->parts) {
    const auto* const memory = parts.memory.find();
    if (memory == nullptr) continue;
    if (std::optional<MemoryBlock> found = (*memory)->find(data)) return found;
  }
  const std::optional<PinnedRange> pinned = state_->pinned.find(data);
  if (pinned && pinned->kind != PinnedKind::registered)
    return MemoryBlock{&state_->pinned, Device::cpu(), pinned->data, pinned->bytes};
  return state_->host.find(data);
}

MemoryConnection Runtime::connect_memory(int socket) const {
  return {state_->registry, socket};
}

Copier& Runtime::copier() {
  return state_->copier;
}

CompletionQueue& Runtime::completions() {
  return state_->completions;
}

Collectives& Runtime::collectives() {
  return state_->collectives;
}

StreamRef Runtime::stream(Device device, CUstream_st* native) {
  return {state_->registry.context(device), native};
}

StreamRef Runtime::per_thread_default_stream(Device device) {
  return StreamRef::per_thread_default(state_->registry.context(device));
}

StreamRef Runtime::current_stream(Device device) {
  return berth::current_stream(state_->registry.context(device));
}

Stream Runtime::create_stream(Device device, StreamOptions options) {
  return {state_->registry.context(device), options};
}

EventLease Runtime::record(StreamRef stream, EventOptions options) {
  EventLease event = events(stream.device()).acquire(options);
  event->record(stream);
  return event;
}

void Runtime::join(StreamRef waiter, std::span<const StreamRef> streams) {
  berth::join([this](DeviceContext& context) -> EventPool& { return state_->events_of(context); },
              waiter, streams);
}

void Runtime::join(StreamRef waiter, std::initializer_list<StreamRef> streams) {
  join(waiter, std::span(streams.begin(), streams.size()));
}

ForkJoin Runtime::fork(StreamRef parent, std::size_t count, int priority) {
  const Device device = parent.device();
  return {parent, streams(device), events(device), count, priority};
}

Statistics Runtime::statistics() const {
  Statistics statistics;
  statistics.driver = driver();
  statistics.devices = state_->registry.physical_devices();
  for (const DeviceParts& parts : state_->parts) {
    const auto* const memory = parts.memory.find();
    if (memory == nullptr) continue;
    statistics.allocators.push_back((*memory)->snapshot());
    for (MemorySnapshot& pool : (*memory)->pool_snapshots()) {
      statistics.allocators.push_back(std::move(pool));
    }
  }
  statistics.allocators.push_back(state_->pinned.snapshot());
  statistics.allocators.push_back(state_->host.snapshot());
  const auto calls = state_->opened.driver->calls();
  for (std::size_t call = 0; call < calls.size(); ++call) {
    if (calls[call] > 0) statistics.driver_calls.push_back({kDriverCallNames[call], calls[call]});
  }
  statistics.copies = state_->copier.counters();
  statistics.backend_devices = state_->backend_devices();
  return statistics;
}

}  // namespace berth
