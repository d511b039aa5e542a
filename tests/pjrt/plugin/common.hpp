// SPDX-License-Identifier: Apache-2.0
// What the functions of the plug-in have in common.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "pjrt/plugin/objects.hpp"

namespace berth::pjrt {

#define RETURN_IF_ERROR(expression) \
  if (Error* const error_ = (expression); error_ != nullptr) return error_

template <class Args>
Error* check_size(const Function<Args>& function, const Args& args, std::size_t longer = 0) {
  const std::size_t expected = function.args_bytes + longer;
  if (args.struct_size >= expected) return nullptr;
  return new_error(Code::invalid_argument, std::string("Unexpected ") + function.name +
                                               "_Args size: expected " + std::to_string(expected) +
                                               ", got " + std::to_string(args.struct_size));
}

/// The error that a client was told to return from this function.
template <class Args>
Error* told_error(const Client& client, const Function<Args>& function) {
  if ("PJRT_" + client.knobs.fail != function.name) return nullptr;
  return new_error(static_cast<Code>(client.knobs.fail_code), "told to fail\nhere");
}

/// Ends `completion` behind `after`, with the error that the client was told, or that of `after`.
template <class Args>
void run(Client& client, const Function<Args>& function, std::shared_ptr<Completion> completion,
         std::shared_ptr<Content> source, std::function<void()> work) {
  const bool fails = "PJRT_" + client.knobs.fail_event == function.name;
  client.queue.post([completion = std::move(completion), source = std::move(source),
                     work = std::move(work), fails,
                     code = static_cast<Code>(client.knobs.fail_code)] {
    const auto finish = [=](const Completion* before) {
      if (fails) return completion->end(code, "told to fail");
      if (before != nullptr && before->code != Code::ok)
        return completion->end(before->code, before->message);
      work();
      completion->end(Code::ok, "");
    };
    if (source == nullptr) return finish(nullptr);
    source->filled->when_over([finish](const Completion& before) { finish(&before); });
  });
}

/// Whether a client was told to report success of this function without an object.
template <class Args>
bool gives_nothing(const Client& client, const Function<Args>& function) {
  return "PJRT_" + client.knobs.gives_nothing == function.name;
}

template <class Args>
Event* event_of(const Client& client, const Function<Args>& function,
                std::shared_ptr<Completion> completion) {
  if (gives_nothing(client, function)) return nullptr;
  return new Event{std::move(completion), client.knobs.fail == "Event_OnReady"};
}

}  // namespace berth::pjrt
