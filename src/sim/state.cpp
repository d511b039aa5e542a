// SPDX-License-Identifier: Apache-2.0
#include "sim/state.hpp"

#include <algorithm>
#include <atomic>
#include <cerrno>  // program_invocation_short_name
#include <exception>
#include <memory>
#include <utility>

#include "berth/error.hpp"

#include "base/check.hpp"
#include "base/env.hpp"
#include "base/fork.hpp"
#include "base/format.hpp"
#include "base/standard_error.hpp"
#include "sim/fork.hpp"
#include "sim/memory/host_memory.hpp"

namespace berth::sim {
namespace {

State* current BERTH_GUARDED_BY(mutex) = nullptr;
constinit std::atomic<std::uint64_t> current_id = 0;
/// Never destroyed, because calls may come until the process has ended.
State* from_environment BERTH_GUARDED_BY(mutex) = nullptr;

void set_current(State* state) BERTH_REQUIRES(mutex) {
  current = state;
  current_id.store(state == nullptr ? 0 : state->id, std::memory_order_relaxed);
}

/// By the program: it has called configuration_error().
bool is_error_reported BERTH_GUARDED_BY(mutex) = false;

std::string& configuration_error_text() BERTH_REQUIRES(mutex) {
  static auto* const text = new std::string;
  return *text;
}

/// Errors InvalidArgument if BERTH_SIM is malformed.
Config environment_config() {
  return Config::parse(trusted_env("BERTH_SIM").value_or(""));
}

/// If another thread keeps the lock, the last power of two remains.
template <ProcessCount State::*count>
void tell_at_exit() {
  if (!mutex.try_lock()) return;
  if (State* const state = installed_state()) {
    if constexpr (count == &State::unrun_operations)
      state->unrun_operations.set(state->scheduler.unrun_uses());
    (state->*count).tell(true);
  }
  mutex.unlock();
}

std::uint64_t next_id() {
  static std::atomic<std::uint64_t> last{0};
  return ++last;
}

}  // namespace

State::State(Config config_, bool alone)
    : config(std::move(config_)),
      id(next_id()),
      faults(config.faults, config.seed),
      log(
          config.log, [this] { return scheduler.now_ns(); }, alone),
      stacks(config.call_sites),
      findings(alone, config, log),
      failed_calls(findings, &Findings::note_failed_calls, &tell_at_exit<&State::failed_calls>),
      skipped_launches(findings, &Findings::note_skipped_launches,
                       &tell_at_exit<&State::skipped_launches>),
      unrun_operations(findings, &Findings::note_unrun_operations,
                       &tell_at_exit<&State::unrun_operations>),
      order(config.checks.any_use(), config.threads == HostThreads::apart),
      races(config.checks.any_use(), order, findings),
      channels(config),
      driver_lock(config.driver_lock),
      launch_blocking(config.launch_blocking.value_or(
          env("CUDA_LAUNCH_BLOCKING").value_or("") == "1" ? LaunchBlocking::work
                                                          : LaunchBlocking::none)),
      scheduler(*this, config, config.silence_ms.value_or(alone ? kSilenceMsDefault : 0)) {
  const auto add = [&](const DeviceFacts& facts, std::uint64_t bytes) {
    const int slot = static_cast<int>(devices.size());
    const Handle pool = pools.create(slot, 0U).handle;
    devices.push_back(
        {.facts = facts,
         .memory = std::make_unique<PhysicalMemory>(bytes, config.granularity, config.poison),
         .linear = {},
         .default_pool = pool,
         .pool = pool});
  };
  for (int slot = 0; slot < config.devices; ++slot)
    add(device_facts(config, slot), config.memory_of(slot));
  for (const auto& [slot, instances] : config.mig) {
    const DeviceFacts parent = devices[static_cast<std::size_t>(slot)].facts;
    for (int index = 0; index < instances; ++index) {
      const MigInstance instance = mig_instance(slot, index, instances);
      const std::uint64_t bytes =
          mig_memory_bytes(instance, config.memory_of(slot), config.granularity);
      add(instance_facts(parent, instance, static_cast<int>(devices.size()), bytes), bytes);
    }
  }
  if (alone && log.on())
    log.note(format_text("process {}, seed {}", program_invocation_short_name, config.seed));
}

State::~State() {
  ending = true;
  std::vector<std::uint64_t> pinned;
  addresses.for_each_range([&](const Range& range) {
    if (range.is_host()) pinned.push_back(range.start);
  });
  for (const std::uint64_t start : pinned) unpin_host_memory(*this, *addresses.find_start(start));
}

void lose_device(State& state, std::size_t slot) {
  if (slot >= state.devices.size()) return;
  state.devices[slot].lost = true;
  state.contexts.for_each([&](Context& context) {
    if (context.device == static_cast<int>(slot)) context.sticky = CUDA_ERROR_UNKNOWN;
  });
}

void release_block(State& state, PhysicalBlock& block) {
  PhysicalMemory& memory = *state.devices[static_cast<std::size_t>(block.device)].memory;
  for (std::uint64_t at = 0; at < block.bytes;) {
    const std::span<const std::byte> stretch = memory.bytes_at(block, at);
    state.races.forget(stretch);
    at += stretch.size();
  }
  memory.release(block);
  state.blocks.erase(block.handle);
}

int State::ordinal_of(int slot) const {
  const auto found = std::find(visible.begin(), visible.end(), slot);
  return found == visible.end() ? -1 : static_cast<int>(found - visible.begin());
}

State* installed_state() {
  return current;
}

std::uint64_t installed_id() {
  return current_id.load(std::memory_order_relaxed);
}

State* installed_or_from_environment() {
  if (current != nullptr) return current;
  try {
    from_environment = new State(environment_config(), true);
  } catch (const InvalidArgument& refused) {
    configuration_error_text() = std::string("BERTH_SIM: ") + refused.what();
    return nullptr;
  }
  configuration_error_text().clear();
  set_current(from_environment);
  return current;
}

void install(State& state) {
  State* replaced = nullptr;
  bool is_parents = false;
  {
    MutexLock lock(mutex);
    BERTH_CHECK(current == from_environment);  // one explicit simulator at a time
    replaced = std::exchange(from_environment, nullptr);
    set_current(&state);
    is_parents = parents_driver.exchange(false, std::memory_order_relaxed);
  }
  std::unique_ptr<State> ending(replaced);
  if (ending == nullptr) return;
  if (is_parents)
    keep_until_exit(std::move(ending));
  else
    ending->scheduler.stop();
}

void uninstall(State& state) {
  {
    MutexLock lock(mutex);
    BERTH_CHECK(current == &state);
    set_current(nullptr);
  }
  if (!is_parents_driver()) state.scheduler.stop();
}

std::string configuration_error() {
  MutexLock lock(mutex);
  is_error_reported = true;
  return configuration_error_text();
}

void print_configuration_error() {
  static auto* const printed = new std::string;
  if (is_error_reported || configuration_error_text() == *printed) return;
  *printed = configuration_error_text();
  write_to_stderr("simulated driver: " + *printed + "\n");
}

int simulated_driver_version() {
  MutexLock lock(mutex);
  if (current != nullptr) return current->config.driver_version;
  try {
    const int version = environment_config().driver_version;
    note_version_query(version);
    return version;
  } catch (const std::exception&) {
    return Config{}.driver_version;  // cuInit reports the error
  }
}

std::uint64_t next_handle_generation() {
  static std::atomic<std::uint64_t> last{0};
  return ++last;
}

}  // namespace berth::sim
