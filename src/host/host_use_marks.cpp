// SPDX-License-Identifier: Apache-2.0
#include "host/host_use_marks.hpp"

#include <algorithm>
#include <exception>
#include <memory>

#include "stream/capture.hpp"
#include "stream/unchecked.hpp"

namespace berth {
namespace {

bool is_marked(const HostUse& use) {
  return use.event != nullptr;
}

}  // namespace

SharedEvent HostUseMarks::mark(StreamRef stream) const {
  if (is_capturing(stream)) return nullptr;
  auto event = std::make_shared<EventLease>(pools_.of(stream.context()).acquire());
  record_unchecked(*event, stream);
  return event;
}

void HostUseMarks::try_mark(HostUse& use) const noexcept {
  if (is_marked(use) || !use.stream) return;
  try {
    use.event = mark(*use.stream);
  } catch (const std::exception& error) {
    report([&] {
      return std::string("an event could not be recorded for a use, will retry:  ") + error.what();
    });
  }
}

bool HostUseMarks::are_over(HostUses& uses) const noexcept {
  for (HostUse& use : uses) try_mark(use);
  try {
    return std::ranges::all_of(
        uses, [](const HostUse& use) { return is_marked(use) && use.event->ref().is_done(); });
  } catch (const std::exception&) {  // an Error or std::bad_alloc
    return false;
  }
}

bool HostUseMarks::wait_for(const HostUses& uses) const noexcept {
  if (!std::ranges::all_of(uses, is_marked)) return false;
  try {
    for (const HostUse& use : uses) sync_unchecked(use.event->ref());
    return true;
  } catch (const std::exception&) {  // an Error or std::bad_alloc
    return false;
  }
}

}  // namespace berth
