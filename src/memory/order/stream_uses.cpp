// SPDX-License-Identifier: Apache-2.0
#include "memory/order/stream_uses.hpp"

#include <algorithm>
#include <exception>
#include <utility>

#include "base/format.hpp"
#include "device/observe_devices.hpp"
#include "stream/capture.hpp"
#include "stream/unchecked.hpp"

namespace berth {

StreamUses::StreamUses(const DeviceEventPools& events, const char* name, const char* if_unknown)
    : events_(events), name_(name), if_unknown_(if_unknown) {
  add_observer_of_all(events_.registry(), *this);
}

StreamUses::~StreamUses() {
  if (origin_.is_here()) {
    remove_observer_of_all(events_.registry(), *this);
  } else {
    keep_until_exit(std::move(handle_use_ended_));  // a thread of the parent may have waited
  }
}

RecordedEvent StreamUses::record(StreamRef stream) {
  if (is_capturing(stream)) return {};
  const std::uint64_t after = clock_;
  SharedEvent event = record_event(stream, events_.of(stream.context()));
  return {std::move(event), after, ++clock_};
}

void StreamUses::add(Memory memory, StreamRef stream, RecordedEvent& mark) {
  RecordedEvent* place = nullptr;
  for (auto [use, end] = uses_.equal_range(memory); use != end; ++use) {
    RecordedEvent& known = use->second.mark;
    if (use->second.stream != stream) continue;
    if (known.covers(mark)) return;
    if (mark.covers(known)) place = &known;
  }
  if (place == nullptr) place = &uses_.emplace(memory, Use{stream})->second.mark;
  std::swap(*place, mark);
}

void StreamUses::mark(Memory memory) noexcept {
  mark_each(memory, [this](StreamRef stream) -> std::optional<SharedEvent> {
    try {
      if (SharedEvent event = record(stream).event) return event;
    } catch (const std::exception& error) {  // an Error or std::bad_alloc
      events_.driver().report(Severity::warning, name_,
                              ": an event could not be recorded for a use, will retry", error);
    }
    return std::nullopt;
  });
}

bool StreamUses::are_over(Memory memory) noexcept {
  mark(memory);
  return drop_each(memory, [](const SharedEvent& event) {
    try {
      return event != nullptr && event->ref().is_done();
    } catch (const std::exception&) {  // an Error or std::bad_alloc
      return false;
    }
  });
}

bool StreamUses::wait_for_marked(Memory memory) noexcept {
  {
    const MutexLock lock(mutex);
    const auto [first, end] = uses_.equal_range(memory);
    if (std::any_of(first, end, [](const auto& use) { return use.second.mark.event == nullptr; }))
      return false;
  }
  return drop_each(memory, [](const SharedEvent& event) {
    try {
      sync_unchecked(event->ref());
      return true;
    } catch (const std::exception&) {  // an Error or std::bad_alloc
      return false;
    }
  });
}

void StreamUses::wait_for_all(Memory memory) noexcept {
  mark_each(memory, [this](StreamRef stream) {
    LastWork end =
        mark_or_wait(stream, events_.of(stream.context()), {});  // the caller waits anyway
    report_unknown(end);
    return std::optional(std::move(end.event));
  });
  drop_each(memory, [this](const SharedEvent& event) {
    try {
      if (event != nullptr) sync_unchecked(event->ref());
    } catch (const std::exception& error) {
      events_.driver().report(Severity::warning, name_, ": waiting for a use of memory", error);
    }
    return true;
  });
}

void StreamUses::stream_retiring(DeviceContext& context, CUstream native) noexcept {
  if (!origin_.is_here()) return;
  const StreamRef stream(context, native);
  if (!forget_marked(stream)) return;
  const LastWork end = mark_or_wait(stream, events_.of(context), name_);
  {
    const MutexLock lock(mutex);
    const auto is_handle_used = [&]() BERTH_UNDER_LOCK {
      return std::ranges::any_of(uses_, [&](const auto& use) {
        return use.second.stream == stream && use.second.is_handle_used;
      });
    };
    while (is_handle_used()) handle_use_ended_->wait(mutex);
    for (auto next = uses_.begin(); next != uses_.end();) {
      const auto entry = next++;
      Use& use = entry->second;
      if (use.stream != stream) continue;
      use.stream.reset();
      if (use.mark.event == nullptr) use.mark.event = end.event;
      if (end.state == LastWork::State::over && use.mark.event == nullptr) uses_.erase(entry);
    }
  }
  report_unknown(end);
}

bool StreamUses::forget_marked(StreamRef stream) {
  const MutexLock lock(mutex);
  bool has_unmarked = false;
  for (auto& [memory, use] : uses_) {
    if (use.stream != stream) continue;
    if (use.mark.event != nullptr) {
      use.stream.reset();
    } else {
      has_unmarked = true;
    }
  }
  return has_unmarked;
}

template <class MarkEnd>
void StreamUses::mark_each(Memory memory,
                           const MarkEnd& mark_end) noexcept BERTH_NO_THREAD_SAFETY_ANALYSIS {
  mutex.lock();
  for (auto next = uses_.lower_bound(memory); next != uses_.end() && next->first == memory;
       ++next) {
    Use& use = next->second;
    if (!use.stream || use.mark.event != nullptr || use.is_handle_used) continue;
    use.is_handle_used = true;
    mutex.unlock();
    std::optional<SharedEvent> event = mark_end(*use.stream);
    mutex.lock();
    use.is_handle_used = false;
    handle_use_ended_->notify_all();
    if (!event) continue;
    use.mark.event = std::move(*event);
    if (use.mark.event == nullptr) use.stream.reset();
  }
  mutex.unlock();
}

template <class IsOver>
bool StreamUses::drop_each(Memory memory, const IsOver& is_over) noexcept {
  for (;;) {
    SharedEvent event;  // also kept so that its destructor takes no lock under the mutex
    {
      const MutexLock lock(mutex);
      const auto use = uses_.find(memory);
      if (use == uses_.end()) return true;
      event = use->second.mark.event;
    }
    if (!is_over(event)) return false;
    const MutexLock lock(mutex);
    const auto [first, end] = uses_.equal_range(memory);
    const auto over =
        std::find_if(first, end, [&](const auto& use) { return use.second.mark.event == event; });
    if (over != end) uses_.erase(over);
  }
}

void StreamUses::report_unknown(const LastWork& end) const noexcept {
  if (end.state == LastWork::State::marked || end.state == LastWork::State::over) return;
  events_.driver().report(Severity::warning, [&] {
    return format_text("{}: {}, so the completion of its work is unknown: {}", name_,
                       end.state == LastWork::State::captured
                           ? "a stream that uses memory is captured"
                           : "the driver accepts no call for a stream that uses memory",
                       if_unknown_);
  });
}

}  // namespace berth
