// SPDX-License-Identifier: Apache-2.0
#include "copy/staged/host_work.hpp"

#include <algorithm>
#include <new>

#include "device/device_context.hpp"
#include "driver/acting_for.hpp"
#include "stream/capture.hpp"
#include "stream/poll.hpp"
#include "stream/settle.hpp"

namespace berth {
namespace {

/// How long one sleeps who waits for another thread, before looking again.
constexpr std::chrono::microseconds kPatience{500};

/// The events of staged copies are never captured, but others may be capturing: ask within a
/// RelaxedCapture.
bool is_done(EventRef event) {
  const Driver& driver = event.context().driver();
  return is_complete(driver, DriverCall::event_query, driver.try_event_query(event.native()));
}

}  // namespace

void HostWork::add(const CopyPtr& copy, int priority) {
  const MutexLock lock(mutex_);
  under_way_.push_back({copy, priority});
  join_turns(copy);
  changed_.notify_all();
}

void HostWork::join_turns(const CopyPtr& copy) {
  std::weak_ptr<StagedCopy>& latest = copy->staging().blocks->latest;
  const CopyPtr before = latest.lock();
  latest = copy;
  if (copy->has_turn()) return;
  if (before == nullptr || before->is_over) return copy->begin_turn();
  copy->predecessor = before;
  before->successor = copy;
}

HostWork::CopyPtr HostWork::with_turn(const CopyPtr& copy) {
  const MutexLock lock(mutex_);
  CopyPtr first = copy;
  while (!first->has_turn()) first = first->predecessor.lock();  // alive until it hands the turn on
  return first;
}

void HostWork::end_submission(const CopyPtr& copy) {
  const MutexLock lock(mutex_);
  copy->end_submission();
}

std::optional<HostWork::Task> HostWork::take() {
  const MutexLock lock(mutex_);
  const std::size_t count = under_way_.size();
  const Entry* best = nullptr;
  std::size_t place = 0;
  for (std::size_t step = 0; step < count; ++step) {
    const std::size_t index = (turn_ + step) % count;
    const Entry& entry = under_way_[index];
    if (best != nullptr && entry.priority >= best->priority) continue;
    if (!entry.copy->has_piece()) continue;
    best = &entry;
    place = index;
  }
  if (best == nullptr) return std::nullopt;
  turn_ = place + 1;
  return Task{best->copy, best->copy->take()};
}

void HostWork::finish(const Task& task) {
  {
    const MutexLock lock(mutex_);
    task.copy->finish(task.piece);
    if (task.copy->pieces_in_hand() == 0) changed_.notify_all();
  }
  retire_if_over(task.copy);
}

bool HostWork::help() {
  const std::optional<Task> task = take();
  if (!task) return false;
  task->move();
  finish(*task);
  return true;
}

bool HostWork::help_with(const CopyPtr& copy) {
  std::optional<Task> task;
  {
    const MutexLock lock(mutex_);
    if (copy->has_piece()) task = Task{copy, copy->take()};
  }
  if (!task) return false;
  task->move();
  finish(*task);
  return true;
}

template <class Ask>
bool HostWork::ask_about_step(const CopyPtr& copy, const Ask& ask) {
  std::optional<EventRef> event;
  std::size_t step = 0;
  {
    const MutexLock lock(mutex_);
    copy->open_gates_if_given_up();
    event = copy->next_event();
    if (!event) return false;
    step = copy->steps_passed();
    ++copy->askers;  // keeps the event from others
  }
  bool passed = false;
  std::exception_ptr failure;
  try {
    const ContextScope scope(event->context());
    const ActingFor acting(event->context().driver(), copy.get());
    passed = ask(*event);
  } catch (...) {
    failure = std::current_exception();
    copy->give_up(failure);
  }
  const MutexLock lock(mutex_);
  --copy->askers;
  if (failure != nullptr) copy->note_failed_answer();
  if (passed && copy->steps_passed() == step) copy->pass();
  if (passed || failure != nullptr) changed_.notify_all();
  return passed || failure != nullptr;
}

bool HostWork::look_at(const CopyPtr& copy) {
  RelaxedCapture relaxed(copy->stream().context().driver());
  const auto ask = [&](EventRef event) {
    relaxed.begin();
    return is_done(event);
  };
  bool went_on = false;
  while (ask_about_step(copy, ask)) went_on = true;
  settle_if_failed(copy);
  retire_if_over(copy);
  return went_on;
}

void HostWork::settle_if_failed(const CopyPtr& copy) {
  std::optional<EventRef> last;
  {
    const MutexLock lock(mutex_);
    if (!copy->wants_settling() || copy->askers > 0) return;
    last = copy->last_event();
    ++copy->askers;
  }
  {
    const ActingFor acting(last->context().driver(), copy.get());
    settle(*last);
  }
  const MutexLock lock(mutex_);
  --copy->askers;
  copy->end_device();
  changed_.notify_all();
}

bool HostWork::look() {
  std::vector<CopyPtr> unasked;
  {
    const MutexLock lock(mutex_);
    for (const Entry& entry : under_way_) {
      if (entry.copy->askers == 0) unasked.push_back(entry.copy);
    }
  }
  bool went_on = false;
  for (const CopyPtr& copy : unasked) went_on = look_at(copy) || went_on;
  return went_on;
}

void HostWork::retire_if_over(const CopyPtr& copy) {
  {
    const MutexLock lock(mutex_);
    if (!copy->is_at_end() || copy->pieces_in_hand() > 0 || copy->askers > 0) return;
    const auto found =
        std::ranges::find_if(under_way_, [&](const Entry& entry) { return entry.copy == copy; });
    if (found == under_way_.end()) return;
    under_way_.erase(found);
    copy->end_device();  // a thread that is about to ask finds nothing to ask about
  }
  on_over_(*copy);
  const MutexLock lock(mutex_);
  copy->is_over.store(true, std::memory_order_release);
  if (const CopyPtr next = copy->successor.lock()) next->begin_turn();
  changed_.notify_all();
}

bool HostWork::sleep(std::chrono::nanoseconds nap) {
  const MutexLock lock(mutex_);
  if (stopped_) return false;
  if (under_way_.empty())
    changed_.wait(mutex_);
  else
    changed_.wait_for(mutex_, nap);
  return !stopped_;
}

void HostWork::stop() {
  const MutexLock lock(mutex_);
  stopped_ = true;
  changed_.notify_all();
}

bool HostWork::wait_for_progress(const CopyPtr& copy) {
  RelaxedCapture relaxed(copy->stream().context().driver());
  const auto wait = [&](EventRef event) {
    relaxed.begin();
    event.context().driver().event_synchronize(event.native());
    return true;
  };
  if (ask_about_step(copy, wait)) {
    retire_if_over(copy);
    return true;
  }
  const MutexLock lock(mutex_);
  if (!copy->is_over && !copy->has_piece() && !copy->next_event())
    changed_.wait_for(mutex_, kPatience);
  return false;
}

bool HostWork::complete(const CopyPtr& copy) {
  bool waited = false;
  while (!copy->is_over.load(std::memory_order_acquire)) {
    const CopyPtr first = with_turn(copy);
    if (!help_with(first) && !look_at(first)) waited = wait_for_progress(first) || waited;
  }
  copy->tell_caller();
  return waited;
}

bool HostWork::is_host_side_done(const StagedCopy& copy) const {
  return (copy.is_all_taken() || copy.is_given_up()) && copy.pieces_in_hand() == 0;
}

bool HostWork::complete_host_side(const CopyPtr& copy) {
  bool waited = false;
  for (;;) {
    if (help_with(copy)) continue;
    {
      const MutexLock lock(mutex_);
      if (is_host_side_done(*copy)) return waited;
      if (copy->is_all_taken()) {  // by others
        changed_.wait(mutex_);
        continue;
      }
    }
    const CopyPtr first = with_turn(copy);
    if (first != copy && help_with(first)) continue;
    if (!look_at(first)) waited = wait_for_progress(first) || waited;
  }
}

void HostWork::await_host_side(const CopyPtr& copy) noexcept {
  const MutexLock lock(mutex_);
  while (!is_host_side_done(*copy)) changed_.wait_for(mutex_, kPatience);
}

void HostWork::complete_all() {
  while (const CopyPtr copy = oldest(nullptr)) complete(copy);
}

HostWork::CopyPtr HostWork::oldest(const DeviceContext* context) {
  const MutexLock lock(mutex_);
  const auto found = std::ranges::find_if(under_way_, [&](const Entry& entry) {
    return context == nullptr || &entry.copy->stream().context() == context;
  });
  return found == under_way_.end() ? nullptr : found->copy;
}

void HostWork::cancel(const CopyPtr& copy, std::exception_ptr failure) noexcept {
  const MutexLock lock(mutex_);
  const auto is_it = [&](const Entry& entry) { return entry.copy == copy; };
  if (!std::ranges::any_of(under_way_, is_it)) return;
  if (copy->is_all_taken() && copy->pieces_in_hand() == 0) return;  // nothing can stay behind
  copy->give_up(std::move(failure));
  copy->open_gates_if_given_up();
}

void HostWork::complete_those_before(const CopyPtr& copy) noexcept {
  try {
    for (CopyPtr first = with_turn(copy); first != copy; first = with_turn(copy)) complete(first);
  } catch (const std::bad_alloc&) {  // the workers complete them
    const MutexLock lock(mutex_);
    while (!copy->has_turn()) changed_.wait_for(mutex_, kPatience);
  }
}

void HostWork::abandon(const CopyPtr& copy, std::exception_ptr failure) noexcept {
  copy->give_up(std::move(failure));
  complete_those_before(copy);  // later copies of the slots rely on that
  {
    const MutexLock lock(mutex_);
    copy->open_gates_if_given_up();
  }
  {
    const ActingFor acting(copy->stream().context().driver(), copy.get());
    settle(copy->stream());
  }
  {
    const MutexLock lock(mutex_);
    copy->end_submission();
    copy->end_device();
  }
  retire_if_over(copy);
  const MutexLock lock(mutex_);
  while (!copy->is_over) changed_.wait_for(mutex_, kPatience);
}

std::size_t HostWork::copies_under_way() const {
  const MutexLock lock(mutex_);
  return under_way_.size();
}

}  // namespace berth
