// SPDX-License-Identifier: Apache-2.0
// A PJRT plug-in for tests, of which each module is a variant (variant.hpp).
//
// As plug-ins of OpenXLA do, every function refuses arguments that are shorter than it knows.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <stdexcept>
#include <string_view>
#include <thread>
#include <utility>

#include "berth/export.h"

#include "pjrt/plugin/buffer_calls.hpp"
#include "pjrt/plugin/description_calls.hpp"
#include "pjrt/plugin/extensions.hpp"
#include "pjrt/plugin/variant.hpp"

namespace berth::pjrt {
namespace {

constexpr std::size_t kSlots = 118;

Knobs read_knobs(const ClientCreateArgs& args) {
  Knobs knobs;
  for (std::size_t i = 0; i < args.option_count; ++i) {
    const NamedValue& option = args.options[i];
    const std::string_view name(option.name, option.name_bytes);
    const auto text = [&] { return std::string(option.string, option.value_count); };
    if (name == "devices") knobs.devices = option.int64;
    if (name == "memory_bytes") knobs.memory_bytes = option.int64;
    if (name == "memory_stats") knobs.memory_stats = option.boolean;
    if (name == "simulated") knobs.simulated = option.boolean;
    if (name == "late") knobs.late = option.boolean;
    if (name == "no_raw_reads") knobs.no_raw_reads = option.boolean;
    if (name == "no_parts") knobs.no_parts = option.boolean;
    if (name == "throws") knobs.throws = option.boolean;
    if (name == "holds_source") knobs.holds_source = option.boolean;
    if (name == "holds") knobs.holds = text();
    if (name == "gives_nothing") knobs.gives_nothing = text();
    if (name == "scale") knobs.scale = option.float32;
    if (name == "fail") knobs.fail = text();
    if (name == "fail_event") knobs.fail_event = text();
    if (name == "fail_code") knobs.fail_code = option.int64;
    if (name == "callback") knobs.callback = text();
    if (name == "lie") knobs.lie = text();
    if (name == "leaks") knobs.leaks = option.boolean;
    if (name == "dies_after") knobs.dies_after = option.int64;
    if (name == "attribute_bytes") knobs.attribute_bytes = option.int64;
  }
  return knobs;
}

/// Functions of errors refuse a short struct without a word. Who calls can know their size only by
/// the version.
bool is_long_enough(std::size_t struct_size, std::size_t args_bytes) {
  return struct_size >= args_bytes + (variant.minor > kMinorKnown ? variant.longer_bytes : 0);
}

void error_destroy(ErrorDestroyArgs* args) {
  if (!is_long_enough(args->struct_size, sizeof *args)) return;
  delete args->error;
}

void error_message(ErrorMessageArgs* args) {
  if (!is_long_enough(args->struct_size, sizeof *args)) return;
  args->message = args->error->message.data();
  args->message_bytes = args->error->message.size();
}

Error* error_code(ErrorCodeArgs* args) {
  if (!is_long_enough(args->struct_size, offsetof(ErrorCodeArgs, code) + sizeof(Code)))
    return new_error(Code::invalid_argument, "a short struct");
  args->code = args->error->code;
  return nullptr;
}

/// Events that were destroyed while Event_OnReady was called for them.
std::atomic<int> events_destroyed_in_calls = 0;

/// Called by Plugin_Initialize, which fails if it returns false.
bool (*at_initialization)() = nullptr;

Error* call(const Function<PluginInitializeArgs>& function, PluginInitializeArgs& args) {
  RETURN_IF_ERROR(check_size(function, args));
  if (at_initialization == nullptr || at_initialization()) return nullptr;
  return new_error(Code::unavailable, "told to fail");
}

Error* call(const Function<EventArgs>& function, EventArgs& args) {
  RETURN_IF_ERROR(check_size(function, args));
  if (function.slot == event_destroy.slot) {
    args.event->use->is_destroyed = true;
    if (args.event->use->is_in_call) ++events_destroyed_in_calls;
    delete args.event;
    return nullptr;
  }
  args.event->completion->wait();
  return args.event->completion->error();
}

Error* call(const Function<EventIsReadyArgs>& function, EventIsReadyArgs& args) {
  RETURN_IF_ERROR(check_size(function, args));
  args.is_ready = args.event->completion->is_over();
  return nullptr;
}

/// As a call whose thread gets no processor: the event is ready for long before it returns.
void be_slow(const Event& event) {
  const auto completion = event.completion;
  const auto use = event.use;
  use->is_in_call = true;
  completion->wait();
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(1);
  while (!use->is_destroyed && std::chrono::steady_clock::now() < end)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  use->is_in_call = false;
}

/// Whether this thread is in a callback that must not call the plug-in.
thread_local bool is_called_alone = false;
/// Calls that were refused for this.
std::atomic<int> calls_in_callbacks = 0;

/// An event may be destroyed in its callback, as OpenXLA's own client does.
template <class Args>
Error* refuse_in_callback(const Function<Args>& function) {
  if (!is_called_alone || function.slot == event_destroy.slot) return nullptr;
  ++calls_in_callbacks;
  return new_error(Code::failed_precondition, std::string(function.name) + " in a callback");
}

Error* call(const Function<EventOnReadyArgs>& function, EventOnReadyArgs& args) {
  RETURN_IF_ERROR(check_size(function, args));
  const Knobs& knobs = args.event->client->knobs;
  if (knobs.fail == "Event_OnReady") return new_error(Code::internal, "no callbacks");
  if (knobs.callback == "never") return nullptr;
  const auto completion = args.event->completion;
  const bool is_after_refusal = knobs.callback == "after a refusal";
  if (is_after_refusal || knobs.callback == "after the end") {
    held_callbacks.add([completion, callback = args.callback, user = args.user] {
      completion->wait();
      callback(completion->error(), user);
    });
    return is_after_refusal ? new_error(Code::internal, "no callbacks") : nullptr;
  }
  if (knobs.callback == "slow") be_slow(*args.event);
  if (knobs.callback == "of nothing") args.callback(nullptr, nullptr);
  const bool calls_twice = knobs.callback == "twice";
  const bool refuses = knobs.callback == "and refuses";
  const bool is_alone = knobs.callback == "alone";
  const auto call_back = [completion, callback = args.callback, user = args.user, calls_twice,
                          is_alone] {
    is_called_alone = is_alone;
    callback(completion->error(), user);
    is_called_alone = false;
    if (calls_twice) callback(new_error(Code::data_loss, "told to call back twice"), user);
  };
  completion->when_started([completion, call_back, client = args.event->client] {
    client->callbacks.when_over(completion, call_back);
  });
  if (refuses) return new_error(Code::internal, "no callbacks");
  return nullptr;
}

/// Until every call fails; -1: none will.
std::atomic<std::int64_t> calls_left = -1;

/// Whether this call finds the plug-in dead.
bool is_dead() {
  std::int64_t left = calls_left;
  while (left > 0 && !calls_left.compare_exchange_weak(left, left - 1)) {
  }
  return left == 0;
}

template <class Args>
bool frees(const Function<Args>& function) {
  return std::string_view(function.name).ends_with("_Destroy") || function.slot == dma_unmap.slot;
}

Error* call(const Function<ClientCreateArgs>& function, ClientCreateArgs& args) {
  RETURN_IF_ERROR(check_size(function, args));
  std::unique_ptr<Client> client;
  try {
    client = std::make_unique<Client>(read_knobs(args));
  } catch (const MachineError& refusal) {
    return new_error(refusal.code, refusal.what());
  }
  RETURN_IF_ERROR(told_error(*client, function));
  if (client->knobs.throws) throw std::runtime_error("an exception of the plug-in");
  calls_left = client->knobs.dies_after;
  args.client = gives_nothing(*client, function) ? nullptr : client.release();
  return nullptr;
}

Error* call(const Function<ClientDestroyArgs>& function, ClientDestroyArgs& args) {
  RETURN_IF_ERROR(check_size(function, args));
  delete args.client;
  calls_left = -1;
  return nullptr;
}

/// Calls by slot since the plug-in was loaded.
std::atomic<int> calls[kSlots];

/// The entry of a slot.
template <const auto& kFunction>
Error* entry(typename std::remove_cvref_t<decltype(kFunction)>::Args* args) {
  ++calls[kFunction.slot];
  RETURN_IF_ERROR(refuse_in_callback(kFunction));
  if (!is_dead()) return call(kFunction, *args);
  // Nothing can be freed twice, so a dead plug-in frees what it is asked to.
  Error* const error = frees(kFunction) ? call(kFunction, *args) : nullptr;
  return error != nullptr ? error : new_error(Code::unavailable, "the plug-in has died");
}

/// Of the simulated driver, from the test.
ResolveDriver* resolve_driver = nullptr;

struct WholeTable {
  Table table;
  const void* slots[kSlots];
};

WholeTable make_table() {
  WholeTable whole{};
  whole.table.struct_size = slot_offset(variant.slots);
  whole.table.extensions = extensions(variant.extensions);
  whole.table.version = {variant.version_bytes, nullptr, variant.major, variant.minor};
  whole.slots[kErrorDestroySlot] = reinterpret_cast<const void*>(&error_destroy);
  whole.slots[kErrorMessageSlot] = reinterpret_cast<const void*>(&error_message);
  whole.slots[kErrorCodeSlot] = reinterpret_cast<const void*>(&error_code);
#define SET_SLOT(member, slot, symbol, Args, last) \
  whole.slots[slot] = reinterpret_cast<const void*>(&entry<member>);
  BERTH_PJRT_FUNCTIONS(SET_SLOT)
#undef SET_SLOT
  if (!variant.has_await) whole.slots[event_await.slot] = nullptr;
  return whole;
}

}  // namespace

Client::Client(Knobs knobs_)
    : knobs(std::move(knobs_)),
      machine(knobs.simulated ? make_simulated_machine(resolve_driver, int(knobs.devices))
                              : make_host_machine()),
      queue(knobs.late) {
  for (int id = 0; id < knobs.devices; ++id) {
    owned.push_back(std::make_unique<Device>());
    owned.back()->client = this;
    describe(owned.back()->description, id, knobs);
    devices.push_back(owned.back().get());
  }
}

}  // namespace berth::pjrt

extern "C" BERTH_API const berth::pjrt::Table* GetPjrtApi() {
  static const berth::pjrt::WholeTable whole = berth::pjrt::make_table();
  return &whole.table;
}

/// The simulated driver of clients with the option `simulated`.
extern "C" BERTH_API void berth_test_pjrt_use_driver(berth::pjrt::ResolveDriver* resolve) {
  berth::pjrt::resolve_driver = resolve;
}

/// Lets Plugin_Initialize call `act`, and fail if that returns false.
extern "C" BERTH_API void berth_test_pjrt_at_initialization(bool (*act)()) {
  berth::pjrt::at_initialization = act;
}

/// Number of live objects of all kinds.
extern "C" BERTH_API int berth_test_pjrt_live() {
  return berth::pjrt::live.sum();
}

/// Number of structs that were refused for their size.
extern "C" BERTH_API int berth_test_pjrt_refused_sizes() {
  return berth::pjrt::refused_sizes;
}

/// Frees what clients have leaked.
extern "C" BERTH_API void berth_test_pjrt_free_leaked() {
  berth::pjrt::leaked.free();
}

/// Ends all operations, and the use of all sources, that clients hold.
extern "C" BERTH_API void berth_test_pjrt_release() {
  berth::pjrt::held_ends.release();
}

/// Calls back for all events for which that was put off.
extern "C" BERTH_API void berth_test_pjrt_call_back() {
  berth::pjrt::held_callbacks.release();
}

/// Number of events that were destroyed while Event_OnReady was called for them.
extern "C" BERTH_API int berth_test_pjrt_events_destroyed_in_calls() {
  return berth::pjrt::events_destroyed_in_calls;
}

/// Number of calls in callbacks that forbid them.
extern "C" BERTH_API int berth_test_pjrt_calls_in_callbacks() {
  return berth::pjrt::calls_in_callbacks;
}

/// Number of calls of the function "PJRT_" + `name`; of all functions for null.
extern "C" BERTH_API int berth_test_pjrt_calls(const char* name) {
  using namespace berth::pjrt;
  int sum = 0;
#define ADD_CALLS(member, slot, symbol, Args, last) \
  if (name == nullptr || std::string_view(name) == #symbol) sum += calls[slot];
  BERTH_PJRT_FUNCTIONS(ADD_CALLS)
#undef ADD_CALLS
  return sum;
}
