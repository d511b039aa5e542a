// SPDX-License-Identifier: Apache-2.0
// What the functions of the plug-in have in common.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "pjrt/plugin/objects.hpp"
#include "pjrt/plugin/variant.hpp"

namespace berth::pjrt {

/// Structs that were refused for their size.
inline std::atomic<int> refused_sizes = 0;

#define RETURN_IF_ERROR(expression) \
  if (Error* const error_ = (expression); error_ != nullptr) return error_

/// The size of the plug-in's own struct.
template <class Args>
std::size_t own_size(const Function<Args>& function) {
  if (variant.is_shorter && kNeededBytes<Args> != 0) return kNeededBytes<Args>;
  return function.args_bytes + variant.longer_bytes;
}

/// Members that berth does not know have no value.
template <class Args>
bool has_only_known(const Function<Args>& function, const Args& args) {
  const auto* const bytes = reinterpret_cast<const char*>(&args);
  return std::all_of(bytes + std::min(function.args_bytes, args.struct_size),
                     bytes + args.struct_size, [](char byte) { return byte == 0; });
}

template <class Args>
Error* check_size(const Function<Args>& function, const Args& args) {
  const std::size_t expected = own_size(function);
  const bool fits =
      variant.is_shorter ? args.struct_size == expected : args.struct_size >= expected;
  if (fits && has_only_known(function, args)) return nullptr;
  ++refused_sizes;
  if (variant.is_terse || fits)
    return new_error(Code::invalid_argument, "a struct is not as it should be");
  return new_error(Code::invalid_argument, std::string("Unexpected ") + function.name +
                                               "_Args size: expected " + std::to_string(expected) +
                                               ", got " + std::to_string(args.struct_size) +
                                               ". Check installed software versions.");
}

/// The error that a client was told to return from this function.
template <class Args>
Error* told_error(const Client& client, const Function<Args>& function) {
  if ("PJRT_" + client.knobs.fail != function.name) return nullptr;
  return new_error(static_cast<Code>(client.knobs.fail_code), "told to fail\nhere");
}

/// Starts an operation behind the filling of `source`, if there is one. `work` leaves it to the
/// machine, unless the client was told to fail, or the filling has failed.
template <class Args>
void run(Client& client, const Function<Args>& function, std::shared_ptr<Completion> completion,
         std::shared_ptr<Content> source, std::function<Started()> work) {
  const bool fails = "PJRT_" + client.knobs.fail_event == function.name;
  const bool is_held = "PJRT_" + client.knobs.holds == function.name;
  client.queue.post([completion = std::move(completion), source = std::move(source),
                     work = std::move(work), fails, is_held,
                     code = static_cast<Code>(client.knobs.fail_code)] {
    const auto start = [=](Completion* before) {
      if (fails) return completion->end(code, "told to fail");
      if (before != nullptr && before->code() != Code::ok)
        return completion->end(before->code(), before->message());
      try {
        completion->end(Code::ok, "", work());
      } catch (const MachineError& refusal) {
        completion->end(refusal.code, refusal.what());
      }
    };
    if (is_held) return held_ends.add([start] { start(nullptr); });
    if (source == nullptr) return start(nullptr);
    source->filled->when_started([start, source] { start(source->filled.get()); });
  });
}

/// Whether a client was told to report success of this function without an object.
template <class Args>
bool gives_nothing(const Client& client, const Function<Args>& function) {
  return "PJRT_" + client.knobs.gives_nothing == function.name;
}

template <class Args>
Event* event_of(Client& client, const Function<Args>& function,
                std::shared_ptr<Completion> completion) {
  if (gives_nothing(client, function)) return nullptr;
  return new Event{std::move(completion), &client};
}

}  // namespace berth::pjrt
