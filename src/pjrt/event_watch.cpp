// SPDX-License-Identifier: Apache-2.0
#include "pjrt/event_watch.hpp"

#include <algorithm>
#include <memory>
#include <new>
#include <thread>
#include <utility>
#include <vector>

#include "berth/error.hpp"

#include "base/check.hpp"
#include "pjrt/waiters.hpp"

namespace berth::pjrt {
namespace {

/// An event whose callback has not come for this long is asked for. A callback is late by much
/// less.
constexpr std::chrono::milliseconds kPatience{250};

constexpr std::chrono::milliseconds kBetweenQuestions{1};

/// The end of two operations.
class Both {
 public:
  /// Before an end.
  void call_at_end(DeviceBackend::Done done) noexcept { done_ = std::move(done); }

  void end(std::exception_ptr ended) {
    std::exception_ptr failure;
    {
      const MutexLock lock(mutex_);
      BERTH_CHECK(left_ > 0 && done_ != nullptr);
      if (failure_ == nullptr) failure_ = std::move(ended);
      if (--left_ > 0) return;
      failure = failure_;
    }
    done_(std::move(failure));
  }

 private:
  DeviceBackend::Done done_;
  Mutex mutex_;
  int left_ BERTH_GUARDED_BY(mutex_) = 2;
  std::exception_ptr failure_ BERTH_GUARDED_BY(mutex_);
};

void on_ready(Error* error, void* user) {
  const auto id = reinterpret_cast<WaiterId>(user);
  const std::shared_ptr<Waiter> waiter = waiters().take(id);
  if (waiter == nullptr) {
    const Waiters::Callback callback = waiters().judge(id);
    const Api* const api = Api::of_number(api_number_of(id));
    if (callback == Waiters::Callback::of_nothing || api == nullptr) return;
    api->drop(error);
    if (callback == Waiters::Callback::second) api->note_second_end();
    return;
  }
  const Api& api = waiter->watch.api();
  waiter->end(error == nullptr ? nullptr : api.exception_of(waiter->function, error));
}

/// Takes an operation whose callback was refused, and may come all the same. False: it has come.
bool take_refused(WaiterId id) noexcept {
  try {
    return waiters().take_before_callback(id) != nullptr;
  } catch (const std::bad_alloc&) {
    return waiters().take(id) != nullptr;  // a callback that still comes counts as a second one
  }
}

}  // namespace

EventWatch::~EventWatch() {
  const MutexLock lock(thread_.mutex);
  BERTH_CHECK(waiters_ == 0);
}

void EventWatch::when_ready(const char* function, Event* event, DeviceBackend::Done done) noexcept {
  if (event != nullptr && !is_ready(event) && call_when_ready(function, event, done)) return;
  // Until the event is ready the operation uses host memory, so its end is awaited here.
  done(await(function, event));
}

bool EventWatch::call_when_ready(const char* function, Event* event,
                                 DeviceBackend::Done& done) noexcept {
  const Api& api = api_;  // once the event is ready, this may be gone
  if (!api.has(event_on_ready)) return false;
  std::shared_ptr<Waiter> waiter;
  WaiterId id = 0;
  try {
    waiter = std::make_shared<Waiter>(*this, function);
  } catch (...) {  // no memory, or no thread
    return false;
  }
  try {
    waiter->event = std::make_shared<OwnedEvent>(api, event);
    waiter->done = std::move(done);
    id = waiters().add(waiter);
  } catch (...) {
    if (waiter->done != nullptr) done = std::move(waiter->done);
    waiter->withdraw();
    return false;
  }
  EventOnReadyArgs args{};
  args.event = event;
  args.callback = &on_ready;
  args.user = reinterpret_cast<void*>(id);  // NOLINT(performance-no-int-to-ptr): not an address
  bool is_accepted = false;
  try {
    Error* const error = api.try_call(event_on_ready, args);
    api.drop(error);
    is_accepted = error == nullptr;
  } catch (...) {  // the plug-in threw, or there is no memory to pass a larger struct
    is_accepted = false;
  }
  if (is_accepted) {
    waiters().ask_from_now(id);
    return true;
  }
  if (!take_refused(id)) return true;
  done = std::move(waiter->done);
  waiter->withdraw();
  return false;
}

void EventWatch::when_both_ready(const char* function, Event* first, Event* second,
                                 DeviceBackend::Done done) noexcept {
  if (second == nullptr) return when_ready(function, first, std::move(done));
  // Most plug-ins copy a small buffer at once, and what follows allocates memory.
  bool is_second_over = is_ready(second);
  if (!is_second_over && is_ready(first)) {
    std::swap(first, second);
    is_second_over = true;
  }
  std::exception_ptr failure = is_second_over ? await(function, second) : nullptr;
  if (is_second_over && failure == nullptr) return when_ready(function, first, std::move(done));
  DeviceBackend::Done end_first;
  DeviceBackend::Done end_second;
  try {
    const auto both = std::make_shared<Both>();
    const auto end = [both](std::exception_ptr ended) { both->end(std::move(ended)); };
    end_first = end;
    end_second = end;
    both->call_at_end(std::move(done));
  } catch (const std::bad_alloc&) {
    const std::exception_ptr first_failure = await(function, first);
    if (!is_second_over) failure = await(function, second);
    return done(first_failure != nullptr ? first_failure : failure);
  }
  if (is_second_over)
    end_second(failure);
  else
    when_ready(function, second, std::move(end_second));
  when_ready(function, first, std::move(end_first));
}

EventWatch::Readiness EventWatch::ask(Event* event) const noexcept {
  if (event == nullptr || !api_.has(event_is_ready)) return Readiness::unknown;
  EventIsReadyArgs args{};
  args.event = event;
  try {
    Error* const error = api_.try_call(event_is_ready, args);
    api_.drop(error);
    if (error != nullptr) return Readiness::unknown;
    return args.is_ready ? Readiness::ready : Readiness::pending;
  } catch (...) {
    return Readiness::unknown;
  }
}

std::exception_ptr EventWatch::await(const char* function, Event* event) const noexcept {
  std::exception_ptr failure = failure_of(function, event);
  if (event != nullptr) api_.destroy(event_destroy, {0, nullptr, event});
  return failure;
}

std::exception_ptr EventWatch::failure_of(const char* function, Event* event) const noexcept {
  try {
    if (event == nullptr) api_.raise_text(function, Code::internal, "the plug-in gave no event");
    EventArgs args{};
    args.event = event;
    if (Error* const error = api_.try_call(event_await, args)) api_.raise(function, error);
    return nullptr;
  } catch (...) {
    // It may be the wait that has failed, and not the operation, which then still uses memory.
    while (ask(event) == Readiness::pending) std::this_thread::sleep_for(kBetweenQuestions);
    return std::current_exception();
  }
}

void EventWatch::add_waiter() {
  const MutexLock lock(thread_.mutex);
  thread_.start("events of a plug-in", [this] { loop(); });
  if (waiters_++ == 0) thread_.changed.notify_all();
}

void EventWatch::remove_waiter() noexcept {
  const MutexLock lock(thread_.mutex);
  BERTH_CHECK(waiters_ > 0);
  --waiters_;
}

void EventWatch::run_later(std::shared_ptr<Task> task) noexcept {
  {
    const MutexLock lock(thread_.mutex);
    if (thread_.is_started()) {
      tasks_.add(std::move(task));
      thread_.changed.notify_all();
      return;
    }
  }
  task->run();  // there was no callback without the thread
}

void EventWatch::loop() {
  Clock::time_point ask_at = Clock::time_point::max();
  std::shared_ptr<Task> task;
  for (;;) {
    switch (next(ask_at, task)) {
      case Next::run:
        std::exchange(task, nullptr)->run();
        break;
      case Next::ask:
        end_forgotten();
        break;
      case Next::end:
        return;
    }
  }
}

EventWatch::Next EventWatch::next(Clock::time_point& ask_at, std::shared_ptr<Task>& task) {
  const MutexLock lock(thread_.mutex);
  for (;;) {
    task = tasks_.take();
    if (task != nullptr) return Next::run;
    if (thread_.is_ending()) return Next::end;
    const Clock::time_point now = Clock::now();
    if (waiters_ == 0) {
      ask_at = Clock::time_point::max();
      thread_.changed.wait(thread_.mutex);
    } else if (now < ask_at) {
      ask_at = std::min(ask_at, now + kPatience);
      thread_.changed.wait_until(thread_.mutex, ask_at);
    } else {
      ask_at = Clock::time_point::max();
      return Next::ask;
    }
  }
}

void EventWatch::end_forgotten() noexcept {
  try {
    const auto start = Clock::now() - kPatience;
    for (const Waiters::Asked& asked : waiters().waiting_since(*this, start)) {
      if (ask(asked.event->get()) != Readiness::ready) continue;
      const std::shared_ptr<Waiter> waiter = waiters().take_before_callback(asked.id);
      if (waiter != nullptr) waiter->end(failure_of(asked.function, asked.event->get()));
    }
  } catch (const std::bad_alloc&) {  // NOLINT(bugprone-empty-catch): the next time
  }
}

}  // namespace berth::pjrt
