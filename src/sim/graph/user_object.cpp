// SPDX-License-Identifier: Apache-2.0
#include "sim/graph/user_object.hpp"

#include <utility>
#include <vector>

#include "sim/state.hpp"

namespace berth::sim {

void release(State& state, UserObject& object, std::uint64_t count) {
  object.references -= count;
  if (object.references != 0) return;
  state.scheduler.call_on_host(object.destroy, object.data, std::move(object.done));
  state.user_objects.erase(object.handle);
}

void release(State& state, const HeldObjects& objects, const Clock& done) {
  for (const auto& [object, count] : objects) {
    UserObject& held = *state.user_objects.find(object);
    held.done.join(done);
    release(state, held, count);
  }
}

void retain(State& state, const HeldObjects& objects) {
  for (const auto& [object, count] : objects) state.user_objects.find(object)->references += count;
}

void release_completed(State& state) {
  std::vector<HeldUntil> running;
  for (HeldUntil& held : std::exchange(state.held_until, {})) {
    if (state.scheduler.done(held.done.ticket))
      release(state, held.objects, held.done.clock);
    else
      running.push_back(std::move(held));
  }
  state.held_until = std::move(running);
}

}  // namespace berth::sim
