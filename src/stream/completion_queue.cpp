// SPDX-License-Identifier: Apache-2.0
// One thread, which sleeps until a callback is due. For each callback, an event (its mark) and a
// host function behind it are submitted to the stream. The host function wakes the thread.
//
// Both are needed. CUDA drops host functions on a failed device ("Execution Control",
// cuLaunchHostFunc), and a host function must not call CUDA, so it can neither report a failure nor
// be the callback. An event alone would have to be polled, or waited for, which delays callbacks of
// other streams. So host functions notify the thread, and marks have the result: the thread queries
// the mark of each callback before the call. While callbacks are outstanding, it also queries the
// oldest mark of each device every kProbePeriod, to detect a failed device. While none is
// outstanding, it makes no query.
//
// Callbacks of cuStreamAddCallback also run after a failure, but CUDA will remove that function.
//
// Invariants: an entry is in `outstanding` from before the submission of its host function until
// its callback begins. Once the host function is submitted, only the thread removes the entry.
// Numbers increase in the order of submission, so the lowest number of a stream is its oldest
// entry.
#include "berth/completion_queue.hpp"

#include <chrono>
#include <list>
#include <map>
#include <optional>
#include <pthread.h>
#include <set>
#include <thread>
#include <utility>

#include "base/check.hpp"
#include "base/condition_variable.hpp"
#include "base/fork.hpp"
#include "base/mutex.hpp"
#include "base/start_thread.hpp"
#include "device/device_context.hpp"
#include "stream/capture.hpp"
#include "stream/completion_notices.hpp"
#include "stream/unchecked.hpp"
#include "stream/wait.hpp"
#include "stream/wait_after_failure.hpp"

namespace berth {
namespace {

constexpr const char* kThread = "the thread of completion callbacks";
/// The maximum time until a failed device is detected.
constexpr std::chrono::milliseconds kProbePeriod{50};

/// Queries `mark`.
CUresult query_mark(EventRef mark) noexcept {
  const ContextScope scope(mark.context(), std::nothrow);
  return mark.context().driver().try_event_query(mark.native());
}

CUresult wait_until_passed(EventRef mark) noexcept {
  const ContextScope scope(mark.context(), std::nothrow);
  return try_wait_for(mark);
}

}  // namespace

struct BERTH_HIDDEN CompletionQueue::State final : NoticeTarget {
  /// Shared with queries, because an event that is returned to its pool may be recorded in captured
  /// work.
  using Mark = std::shared_ptr<const EventLease>;
  struct Entry {
    Callback callback;
    Mark mark;
    std::list<std::uint64_t> notice;  ///< its number, for `notices`: a host function cannot fail
  };
  using Clock = std::chrono::steady_clock;

  explicit State(EventPools events_) : events(std::move(events_)) {}

  void require_open() const BERTH_REQUIRES(mutex);
  void start(const Driver& driver) BERTH_EXCLUDES(mutex);
  std::uint64_t add(Callback callback, Mark mark) BERTH_EXCLUDES(mutex);
  /// Removes the entry of a rejected host function; false if its callback has been called.
  bool remove(std::uint64_t number) BERTH_EXCLUDES(mutex);
  void notice(std::uint64_t number) noexcept override;
  void finish() noexcept BERTH_EXCLUDES(mutex);

  // On the thread.
  void run(const Driver& driver) BERTH_EXCLUDES(mutex);
  /// Sleeps until there is something to do. Returns the number of a notice, if any.
  std::optional<std::uint64_t> next_notice() BERTH_EXCLUDES(mutex);
  void probe() BERTH_EXCLUDES(mutex);
  /// Waits for the oldest entry; false if there is none.
  bool wait_for_oldest() BERTH_EXCLUDES(mutex);
  Mark mark_of(std::uint64_t number) BERTH_EXCLUDES(mutex);
  /// `mark` is the mark of the entry, and has been queried.
  void complete(std::uint64_t number, Mark mark, DriverCall asked, CUresult result)
      BERTH_EXCLUDES(mutex);

  const EventPools events;
  const ForkOrigin origin;
  mutable Mutex mutex;
  ConditionVariable changed;
  std::map<std::uint64_t, Entry> outstanding BERTH_GUARDED_BY(mutex);
  std::list<std::uint64_t> notices BERTH_GUARDED_BY(mutex);  ///< some of removed entries
  bool finishing BERTH_GUARDED_BY(mutex) = false;
  std::thread thread BERTH_GUARDED_BY(mutex);
  Clock::time_point next_probe;  ///< of the thread alone
};

void CompletionQueue::State::require_open() const {
  if (!finishing) return;
  throw InvalidArgument(
      "a completion callback was submitted after the end of its Runtime had begun; accepted: "
      "before");
}

void CompletionQueue::State::start(const Driver& driver) {
  const MutexLock lock(mutex);
  require_open();
  if (!thread.joinable())
    thread = berth::start_thread("completion callbacks", [this, &driver] { run(driver); });
}

std::uint64_t CompletionQueue::State::add(Callback callback, Mark mark) {
  const std::uint64_t number = register_notice(*this);
  try {
    const MutexLock lock(mutex);
    require_open();
    const bool was_idle = outstanding.empty();
    outstanding.emplace(number, Entry{std::move(callback), std::move(mark), {number}});
    if (was_idle) changed.notify_one();  // to start probing
  } catch (...) {
    unregister_notice(number);
    throw;
  }
  return number;
}

bool CompletionQueue::State::remove(std::uint64_t number) {
  unregister_notice(number);
  std::map<std::uint64_t, Entry>::node_type gone;  // destroyed without the lock
  const MutexLock lock(mutex);
  gone = outstanding.extract(number);
  return !gone.empty();
}

void CompletionQueue::State::notice(std::uint64_t number) noexcept {
  const MutexLock lock(mutex);
  const auto found = outstanding.find(number);
  if (found == outstanding.end()) return;  // a probe has found that the mark has passed
  notices.splice(notices.end(), found->second.notice);
  changed.notify_one();
}

std::optional<std::uint64_t> CompletionQueue::State::next_notice() {
  const MutexLock lock(mutex);
  while (notices.empty() && !finishing) {
    if (outstanding.empty()) {
      changed.wait(mutex);
      next_probe = Clock::now() + kProbePeriod;
    } else if (Clock::now() >= next_probe) {
      return std::nullopt;
    } else {
      changed.wait_until(mutex, next_probe);
    }
  }
  if (notices.empty()) return std::nullopt;
  const std::uint64_t number = notices.front();
  notices.pop_front();
  return number;
}

void CompletionQueue::State::run(const Driver& driver) {
  pthread_setname_np(pthread_self(), "berth callbacks");
  next_probe = Clock::now() + kProbePeriod;
  const RelaxedCapture relaxed(driver);  // marks are never captured, and others may be capturing
  for (;;) {
    if (const std::optional<std::uint64_t> number = next_notice()) {
      if (Mark mark = mark_of(*number)) {
        const CUresult result = query_mark(mark->ref());
        complete(*number, std::move(mark), DriverCall::event_query, result);
      }
    } else {
      const bool ends = [this] {
        const MutexLock lock(mutex);
        return finishing;
      }();
      if (ends && !wait_for_oldest()) return;
    }
    if (Clock::now() >= next_probe) probe();
  }
}

CompletionQueue::State::Mark CompletionQueue::State::mark_of(std::uint64_t number) {
  const MutexLock lock(mutex);
  const auto found = outstanding.find(number);
  return found == outstanding.end() ? nullptr : found->second.mark;
}

void CompletionQueue::State::probe() {
  next_probe = Clock::now() + kProbePeriod;
  std::set<const DeviceContext*> busy;
  std::uint64_t last = 0;
  for (;;) {
    Mark mark;
    {
      const MutexLock lock(mutex);
      auto next = outstanding.upper_bound(last);
      while (next != outstanding.end() && busy.count(&next->second.mark->ref().context()) != 0)
        ++next;
      if (next == outstanding.end()) return;
      last = next->first;
      mark = next->second.mark;
    }
    const CUresult result = query_mark(mark->ref());
    if (result == CUDA_ERROR_NOT_READY) {
      try {
        busy.insert(&mark->ref().context());
      } catch (const std::bad_alloc&) {
        return;  // the next probe queries the others
      }
    } else {
      complete(last, std::move(mark), DriverCall::event_query, result);
    }
  }
}

bool CompletionQueue::State::wait_for_oldest() {
  std::uint64_t number = 0;
  Mark mark;
  {
    const MutexLock lock(mutex);
    if (outstanding.empty()) return false;
    number = outstanding.begin()->first;
    mark = outstanding.begin()->second.mark;
  }
  const CUresult result = wait_until_passed(mark->ref());
  complete(number, std::move(mark), DriverCall::event_synchronize, result);
  return true;
}

void CompletionQueue::State::complete(std::uint64_t number, Mark mark, DriverCall asked,
                                      CUresult result) {
  unregister_notice(number);
  std::map<std::uint64_t, Entry>::node_type node;
  {
    const MutexLock lock(mutex);
    node = outstanding.extract(number);
  }
  if (node.empty()) return;  // its host function was rejected meanwhile
  BERTH_CHECK(node.mapped().mark == mark && node.mapped().callback != nullptr);
  const Driver& driver = mark->ref().context().driver();
  const Callback callback = std::move(node.mapped().callback);
  node = {};
  std::exception_ptr failure;
  // CUDA_ERROR_NOT_READY is not a result of completed work: the host function of this mark has run.
  if (result != CUDA_SUCCESS && result != CUDA_ERROR_NOT_READY) {
    try {
      driver.raise(asked, result);
    } catch (...) {
      failure = std::current_exception();
    }
    // Only the query may have failed, and the callback may keep memory in use alive.
    wait_after_failure(mark->ref());
  }
  mark = nullptr;  // returned, so that others can use the event while the callback runs
  try {
    callback(failure);
  } catch (const std::exception& error) {
    driver.report(Severity::error, "a completion callback threw", error);
  } catch (...) {
    driver.report(Severity::error, "a completion callback threw a non-standard exception");
  }
}

void CompletionQueue::State::finish() noexcept {
  std::thread ending;
  {
    const MutexLock lock(mutex);
    finishing = true;
    ending = std::move(thread);
    changed.notify_one();
  }
  BERTH_CHECK_USE(
      ending.get_id() != std::this_thread::get_id(),
      "CompletionQueue::finish() is called, or its Runtime destroyed, in a callback of the "
      "queue (when_done(), on_done) or by an owner that the queue releases (keep_alive)");
  if (!ending.joinable()) return;
  ending.join();
  const MutexLock lock(mutex);
  BERTH_CHECK(outstanding.empty());  // each callback has been called
}

CompletionQueue::CompletionQueue(EventPools events)
    : state_(std::make_unique<State>(std::move(events))) {}

CompletionQueue::~CompletionQueue() {
  finish();
  // A forked child does not have the thread, and cannot destroy the condition variable on which the
  // parent's thread waits.
  if (!state_->origin.is_here()) keep_until_exit(std::move(state_));
}

void CompletionQueue::start_thread(StreamRef stream) {
  state_->origin.require_here(kThread);
  // Refuses a stream of another Runtime, whose driver may end before the thread does.
  static_cast<void>(state_->events(stream.context()));
  state_->start(stream.context().driver());
}

void CompletionQueue::when_done(StreamRef stream, Callback callback) {
  if (!callback) {
    throw InvalidArgument("a completion callback is empty; accepted: a function to call");
  }
  state_->origin.require_here(kThread);
  const Driver& driver = stream.context().driver();
  const ContextScope scope(stream.context());
  if (is_capturing_in_scope(stream)) refuse_captured(stream, "given a callback");
  EventPool& events = state_->events(stream.context());  // refuses a stream of another Runtime
  state_->start(driver);
  auto mark = std::make_shared<const EventLease>(events.acquire());
  record_unchecked(mark->ref(), stream);
  const std::uint64_t number = state_->add(std::move(callback), std::move(mark));
  const CUresult result =
      driver.try_launch_host_func(stream.native(), &deliver_notice, notice_data(number));
  if (result != CUDA_SUCCESS && state_->remove(number))
    driver.raise(DriverCall::launch_host_func, result);
}

std::size_t CompletionQueue::outstanding() const {
  if (!state_->origin.is_here()) return 0;
  const MutexLock lock(state_->mutex);
  return state_->outstanding.size();
}

void CompletionQueue::finish() noexcept {
  if (state_->origin.is_here()) state_->finish();
}

}  // namespace berth
