// SPDX-License-Identifier: Apache-2.0
#include "copy/staged/host_work.hpp"

#include <algorithm>
#include <new>
#include <utility>

#include "base/check.hpp"
#include "device/device_context.hpp"
#include "driver/acting_for.hpp"
#include "stream/wait_after_failure.hpp"

namespace berth {
namespace {

// How long a worker sleeps before it reads the words again. A slot is in use for 75 us (4 MiB at 55
// GB/s), and a copy has several, so a delay of one nap does not slow it down.
constexpr std::chrono::microseconds kPollPeriodMin{20};
constexpr std::chrono::microseconds kPollPeriodMax{250};

}  // namespace

void HostWork::start(const CopyPtr& copy, const LanePtr& lane, int priority, EventPool& events,
                     GateTrial* trial) {
  std::exception_ptr failure;
  {
    const MutexLock order(lane->submission);
    add(copy, lane, priority, trial);
    try {
      submit(copy, events, trial);
    } catch (...) {
      failure = std::current_exception();
      if (trial != nullptr) end_trial(copy, false);
      close(copy, failure, events);
    }
  }
  end_submission(copy);
  if (failure == nullptr) return;
  complete(copy);
  std::rethrow_exception(failure);
}

void HostWork::add(const CopyPtr& copy, const LanePtr& lane, int priority, GateTrial* trial) {
  std::list<CopyPtr> in_lane{copy};
  std::list<LanePtr> of_lane{lane};
  const MutexLock lock(mutex_);
  if (trial != nullptr) on_trial_.reserve(on_trial_.size() + 1);
  BERTH_CHECK(copy->lane == nullptr && !copy->is_complete);  // a copy is started once
  // Threads that look for work visit the lanes in the list only.
  BERTH_CHECK(lane->copies.empty() || *lane->place == lane);
  copies_.add(copy, priority);  // nothing fails after this
  if (trial != nullptr) {
    copy->withhold();
    trial->begin(GateTrial::Clock::now());
    on_trial_.push_back({copy, trial});
  }
  if (lane->copies.empty()) {
    lane->place = of_lane.begin();
    lanes_.splice(lanes_.end(), of_lane);
  }
  lane->copies.splice(lane->copies.end(), in_lane);
  copy->lane = lane;
  std::weak_ptr<StagedCopy>& latest = copy->staging().blocks->latest;
  const CopyPtr before = latest.lock();
  latest = copy;
  if (before == nullptr || before->lane == nullptr) {
    copy->begin_turn();
  } else {
    BERTH_CHECK(before->successor.expired());  // else a copy would never get its turn
    before->successor = copy;
  }
  update_ready(*copy);
  pieces_.notify_all();  // there is a piece, or a word to read
}

void HostWork::submit(const CopyPtr& copy, EventPool& events, GateTrial* trial) {
  if (trial != nullptr) {
    copy->submit_first_gate();
    end_trial(copy, true);
  }
  while (!copy->is_all_submitted()) {
    std::size_t chunks = 0;
    {
      const MutexLock lock(mutex_);
      chunks = copy->chunks_with_room();
    }
    copy->submit_until(chunks, events);
    if (copy->is_all_submitted()) return;
    progress_or_wait(first_of_lane(*copy));
  }
}

HostWork::Trials::iterator HostWork::find_trial(const StagedCopy& copy) {
  return std::find_if(on_trial_.begin(), on_trial_.end(),
                      [&](const OnTrial& other) { return other.copy.get() == &copy; });
}

void HostWork::note_open_gate(const StagedCopy& copy) {
  if (on_trial_.empty() || !copy.is_first_gate_open()) return;
  const Trials::iterator entry = find_trial(copy);
  if (entry == on_trial_.end() || entry->trial->is_open() || copy.has_failed()) return;
  entry->trial->open(GateTrial::Clock::now());
}

void HostWork::end_trial(const CopyPtr& copy, bool is_submitted) noexcept {
  const MutexLock lock(mutex_);
  const Trials::iterator entry = find_trial(*copy);
  if (entry == on_trial_.end()) return;  // a failure behind the gate
  GateTrial& trial = *entry->trial;
  on_trial_.erase(entry);
  // A failed copy opens its gate without host work.
  if (is_submitted && !copy->has_failed()) trial.end(GateTrial::Clock::now());
  if (trial.is_admitted()) return;
  copy->admit();
  update_ready(*copy);
}

void HostWork::admit_overdue() {
  if (on_trial_.empty()) return;
  const GateTrial::Clock::time_point now = GateTrial::Clock::now();
  for (const auto& [copy, trial] : on_trial_) {
    if (!trial->is_overdue(now)) continue;
    trial->admit();
    copy->admit();
    update_ready(*copy);
  }
}

void HostWork::close(const CopyPtr& copy, std::exception_ptr failure, EventPool& events) noexcept {
  copy->fail(std::move(failure));
  {
    // Before this thread calls the driver, which may make it wait for work behind these gates.
    // Gates that cannot be opened yet are opened by the thread that moves the last piece, or that
    // gives the copy its turn.
    const MutexLock lock(mutex_);
    copy->open_gates_if_failed();
  }
  try {
    copy->close(events);
  } catch (const std::exception&) {
    // Without a mark, the device is known to be done only when all work of the stream has
    // completed. Later copies of the stream have to wait for this one, so the wait precedes their
    // submission.
    for (CopyPtr first = first_of_lane(*copy); first != copy; first = first_of_lane(*copy))
      complete(first);
    {
      const ActingFor acting(copy->stream().context().driver(), copy.get());
      wait_after_failure(copy->stream());
    }
    const MutexLock lock(mutex_);
    end_device(*copy);
  }
}

void HostWork::end_submission(const CopyPtr& copy) {
  {
    const MutexLock lock(mutex_);
    copy->end_submission();
    copy->open_gates_if_failed();
  }
  end_if_complete(copy);
}

HostWork::CopyPtr HostWork::first_of_lane(const StagedCopy& copy) {
  const MutexLock lock(mutex_);
  return copy.lane == nullptr ? nullptr : copy.lane->first();
}

std::optional<HostWork::Task> HostWork::take() {
  const MutexLock lock(mutex_);
  admit_overdue();
  const CopyPtr copy = copies_.next();
  if (copy == nullptr) return std::nullopt;
  const Task task{copy, copy->take()};
  update_ready(*copy);
  return task;
}

void HostWork::finish_piece(const Task& task) {
  const MutexLock lock(mutex_);
  task.copy->finish(task.piece);
  note_open_gate(*task.copy);
  if (task.copy->pieces_in_progress() == 0) changed_.notify_all();
}

void HostWork::finish(const Task& task) {
  finish_piece(task);
  end_if_complete(task.copy);
}

bool HostWork::move_piece() {
  const std::optional<Task> task = take();
  if (!task) return false;
  task->move();
  finish_piece(*task);
  return true;
}

bool HostWork::process_piece() {
  const std::optional<Task> task = take();
  if (!task) return false;
  task->move();
  finish(*task);
  return true;
}

bool HostWork::process_piece_of(const CopyPtr& copy) {
  std::optional<Task> task;
  {
    const MutexLock lock(mutex_);
    if (!copy->has_piece()) return false;
    task = Task{copy, copy->take()};
    update_ready(*copy);
  }
  task->move();
  finish(*task);
  return true;
}

void HostWork::process_lane(const LanePtr& lane) {
  for (;;) {
    CopyPtr first;
    {
      const MutexLock lock(mutex_);
      if (!lane->copies.empty()) first = lane->copies.front();
    }
    if (first == nullptr || (!process_piece_of(first) && !poll_copy(*first))) return;
  }
}

void HostWork::end_device(StagedCopy& copy) {
  copy.end_device();
  update_ready(copy);  // no thread moves another piece
}

void HostWork::update_ready(StagedCopy& copy) {
  if (copies_.update(copy)) pieces_.notify_all();
}

bool HostWork::advance(CopyLane& lane, CopyPtr& completed) {
  bool has_advanced = false;
  while (!lane.copies.empty()) {
    const CopyPtr first = lane.copies.front();
    const bool has_progressed = first->poll_progress();
    has_advanced |= has_progressed;
    if (!remove_if_complete(first, completed)) {
      if (has_progressed) update_ready(*first);
      break;
    }
  }
  if (has_advanced) changed_.notify_all();
  return has_advanced;
}

bool HostWork::poll_copy(const StagedCopy& copy) {
  CopyPtr completed;
  bool has_advanced = false;
  {
    const MutexLock lock(mutex_);
    const LanePtr lane = copy.lane;
    if (lane != nullptr) has_advanced = advance(*lane, completed);
  }
  end(std::move(completed));
  return has_advanced;
}

bool HostWork::poll_progress() {
  CopyPtr completed;
  bool has_advanced = false;
  {
    const MutexLock lock(mutex_);
    admit_overdue();
    for (auto place = lanes_.begin(); place != lanes_.end();) {
      const LanePtr lane = *place++;  // erased with its last copy
      has_advanced |= advance(*lane, completed);
    }
  }
  end(std::move(completed));
  return has_advanced;
}

bool HostWork::remove_if_complete(const CopyPtr& copy, CopyPtr& completed) {
  if (copy->lane == nullptr || !copy->is_at_end()) return false;
  if (copy->pieces_in_progress() > 0) return false;
  copy->end_device();  // so that no thread queries it any more
  copies_.remove(*copy);
  const LanePtr lane = std::exchange(copy->lane, nullptr);
  BERTH_CHECK(lane->copies.front() == copy);  // the lane has the order of its stream
  lane->copies.pop_front();
  if (lane->copies.empty()) lanes_.erase(lane->place);
  // Before anything is freed: the stream waits for the next copy's turn.
  copy->end_turn();
  if (const CopyPtr next = copy->successor.lock()) {
    BERTH_CHECK(next->lane == lane);  // otherwise a stream waits for the copies of another
    next->begin_turn();
    update_ready(*next);
  }
  copy->has_ended.store(true, std::memory_order_release);
  copy->next_completed = std::exchange(completed, copy);
  return true;
}

void HostWork::end_if_complete(const CopyPtr& copy) {
  CopyPtr completed;
  {
    const MutexLock lock(mutex_);
    remove_if_complete(copy, completed);
  }
  end(std::move(completed));
}

void HostWork::end(CopyPtr completed) {
  while (completed != nullptr) {
    const CopyPtr copy = std::exchange(completed, std::move(completed->next_completed));
    on_complete_(*copy);
    copy->has_owner() ? leave_owner(copy) : release_owner(*copy);
  }
}

void HostWork::leave_owner(CopyPtr copy) {
  {
    const MutexLock lock(mutex_);
    copy->next_completed = std::move(owned_);
    owned_ = std::move(copy);
    changed_.notify_all();  // a waiter may take it
  }
  if (on_owner_ != nullptr) on_owner_();
}

void HostWork::release_owner(StagedCopy& copy) {
  BERTH_CHECK(copy.next_completed == nullptr);  // in no list: no other thread releases it
  copy.release_owner();
  copy.mark_complete();
  const MutexLock lock(mutex_);
  copy.is_complete.store(true, std::memory_order_release);
  changed_.notify_all();
}

void HostWork::release_owners() {
  for (;;) {
    CopyPtr copy;  // one at a time: waiting threads take theirs, even if a destructor blocks here
    {
      const MutexLock lock(mutex_);
      if (owned_ == nullptr) return;
      copy = std::exchange(owned_, std::move(owned_->next_completed));
    }
    release_owner(*copy);
  }
}

bool HostWork::take_from_owned(const CopyPtr& copy) {
  const MutexLock lock(mutex_);
  CopyPtr* place = &owned_;
  while (*place != nullptr && *place != copy) place = &(*place)->next_completed;
  if (*place == nullptr) return false;
  *place = std::move(copy->next_completed);
  return true;
}

bool HostWork::wait_for_piece() {
  std::chrono::microseconds period = kPollPeriodMin;
  for (;;) {
    {
      const MutexLock lock(mutex_);
      while (!stopped_ && !copies_.has_any() && (is_polled_ || lanes_.empty()))
        pieces_.wait(mutex_);
      if (stopped_) return false;
      if (copies_.has_any()) return true;
      BERTH_CHECK(!is_polled_);  // one thread reads the words
      is_polled_ = true;
      pieces_.wait_for(mutex_, period);
      is_polled_ = false;
    }
    period = poll_progress() ? kPollPeriodMin : std::min(2 * period, kPollPeriodMax);
  }
}

void HostWork::stop() {
  const MutexLock lock(mutex_);
  BERTH_CHECK(lanes_.empty());       // otherwise a stream would never pass its gate
  BERTH_CHECK(copies_.size() == 0);  // each left with its lane
  stopped_ = true;
  pieces_.notify_all();
}

void HostWork::cancel(const CopyPtr& copy, std::exception_ptr failure) noexcept {
  const MutexLock lock(mutex_);
  if (copy->lane == nullptr) return;
  if (copy->is_all_taken() && copy->pieces_in_progress() == 0)
    return;  // everything has been copied
  copy->fail(std::move(failure));
  copy->open_gates_if_failed();
}

std::size_t HostWork::copies_under_way() const {
  const MutexLock lock(mutex_);
  return copies_.size();
}

}  // namespace berth
