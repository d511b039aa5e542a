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
constexpr std::chrono::microseconds kFirstNap{20};
constexpr std::chrono::microseconds kLongestNap{250};

}  // namespace

void HostWork::start(const CopyPtr& copy, const LanePtr& lane, int priority, EventPool& events) {
  std::exception_ptr failure;
  {
    const MutexLock order(lane->submission);
    add(copy, lane, priority);
    try {
      submit(copy, events);
    } catch (...) {
      failure = std::current_exception();
      close(copy, failure, events);
    }
  }
  end_submission(copy);
  if (failure == nullptr) return;
  complete(copy);
  std::rethrow_exception(failure);
}

void HostWork::add(const CopyPtr& copy, const LanePtr& lane, int priority) {
  std::list<CopyPtr> in_lane{copy};
  std::list<LanePtr> of_lane{lane};
  const MutexLock lock(mutex_);
  BERTH_CHECK(copy->lane == nullptr && !copy->is_over);  // a copy is started once
  copies_.add(copy, priority);                           // nothing fails after this
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
  note_pieces(*copy);
  pieces_.notify_all();  // there is a piece, or a word to read
}

void HostWork::submit(const CopyPtr& copy, EventPool& events) {
  for (;;) {
    std::size_t chunks = 0;
    {
      const MutexLock lock(mutex_);
      chunks = copy->chunks_with_room();
    }
    copy->submit_until(chunks, events);
    if (copy->is_all_submitted()) return;
    go_on(first_of_lane(*copy));
  }
}

void HostWork::close(const CopyPtr& copy, std::exception_ptr failure, EventPool& events) noexcept {
  copy->give_up(std::move(failure));
  try {
    copy->close(events);
  } catch (const std::exception&) {
    // Without a mark, only the end of all work of the stream tells that the device is done. Later
    // copies of the stream have to wait for this one, so the wait comes before any of them can
    // join.
    for (CopyPtr first = first_of_lane(*copy); first != copy; first = first_of_lane(*copy))
      complete(first);
    {
      const MutexLock lock(mutex_);
      copy->open_gates_if_given_up();
    }
    {
      const ActingFor acting(copy->stream().context().driver(), copy.get());
      wait_after_failure(copy->stream());
    }
    const MutexLock lock(mutex_);
    copy->end_device();
    note_pieces(*copy);  // the host moves no more of them
  }
}

void HostWork::end_submission(const CopyPtr& copy) {
  {
    const MutexLock lock(mutex_);
    copy->end_submission();
    copy->open_gates_if_given_up();
  }
  end_if_over(copy);
}

HostWork::CopyPtr HostWork::first_of_lane(const StagedCopy& copy) {
  const MutexLock lock(mutex_);
  return copy.lane == nullptr ? nullptr : copy.lane->copies.front();
}

std::optional<HostWork::Task> HostWork::take() {
  const MutexLock lock(mutex_);
  const CopyPtr copy = copies_.next();
  if (copy == nullptr) return std::nullopt;
  const Task task{copy, copy->take()};
  note_pieces(*copy);
  return task;
}

void HostWork::note_finished(const Task& task) {
  const MutexLock lock(mutex_);
  task.copy->finish(task.piece);
  if (task.copy->pieces_in_hand() == 0) changed_.notify_all();
}

void HostWork::finish(const Task& task) {
  note_finished(task);
  end_if_over(task.copy);
}

bool HostWork::move_piece() {
  const std::optional<Task> task = take();
  if (!task) return false;
  task->move();
  note_finished(*task);
  return true;
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
    if (!copy->has_piece()) return false;
    task = Task{copy, copy->take()};
    note_pieces(*copy);
  }
  task->move();
  finish(*task);
  return true;
}

void HostWork::help_lane(const LanePtr& lane) {
  for (;;) {
    CopyPtr first;
    {
      const MutexLock lock(mutex_);
      if (!lane->copies.empty()) first = lane->copies.front();
    }
    if (first == nullptr || (!help_with(first) && !look_at(*first))) return;
  }
}

void HostWork::note_pieces(StagedCopy& copy) {
  if (copies_.update(copy)) pieces_.notify_all();
}

bool HostWork::advance(CopyLane& lane, CopyPtr& over) {
  bool has_gone_on = false;
  while (!lane.copies.empty()) {
    const CopyPtr first = lane.copies.front();
    const bool has_passed = first->look();
    has_gone_on |= has_passed;
    if (!take_out_if_over(first, over)) {
      if (has_passed) note_pieces(*first);
      break;
    }
  }
  if (has_gone_on) changed_.notify_all();
  return has_gone_on;
}

bool HostWork::look_at(const StagedCopy& copy) {
  CopyPtr over;
  bool has_gone_on = false;
  {
    const MutexLock lock(mutex_);
    const LanePtr lane = copy.lane;
    if (lane != nullptr) has_gone_on = advance(*lane, over);
  }
  end(std::move(over));
  return has_gone_on;
}

bool HostWork::look() {
  CopyPtr over;
  bool has_gone_on = false;
  {
    const MutexLock lock(mutex_);
    for (auto place = lanes_.begin(); place != lanes_.end();) {
      const LanePtr lane = *place++;  // erased with its last copy
      has_gone_on |= advance(*lane, over);
    }
  }
  end(std::move(over));
  return has_gone_on;
}

bool HostWork::take_out_if_over(const CopyPtr& copy, CopyPtr& over) {
  if (copy->lane == nullptr || !copy->is_at_end()) return false;
  if (copy->pieces_in_hand() > 0) return false;
  copy->end_device();  // a thread that is about to ask finds nothing to ask about
  copies_.remove(*copy);
  const LanePtr lane = std::exchange(copy->lane, nullptr);
  BERTH_CHECK(lane->copies.front() == copy);  // the lane has the order of its stream
  lane->copies.pop_front();
  if (lane->copies.empty()) lanes_.erase(lane->place);
  // Before anything is freed: the stream waits for the next copy's turn.
  copy->end_turn();
  if (const CopyPtr next = copy->successor.lock()) {
    next->begin_turn();
    note_pieces(*next);
  }
  copy->next_over = std::exchange(over, copy);
  return true;
}

void HostWork::end_if_over(const CopyPtr& copy) {
  CopyPtr over;
  {
    const MutexLock lock(mutex_);
    take_out_if_over(copy, over);
  }
  end(std::move(over));
}

void HostWork::end(CopyPtr over) {
  while (over != nullptr) {
    const CopyPtr copy = std::exchange(over, std::move(over->next_over));
    on_over_(*copy);
    copy->note_end();
    const MutexLock lock(mutex_);
    copy->is_over.store(true, std::memory_order_release);
    changed_.notify_all();
  }
}

bool HostWork::await_piece() {
  std::chrono::microseconds nap = kFirstNap;
  for (;;) {
    {
      const MutexLock lock(mutex_);
      while (!stopped_ && !copies_.has_any() && (is_watched_ || lanes_.empty()))
        pieces_.wait(mutex_);
      if (stopped_) return false;
      if (copies_.has_any()) return true;
      BERTH_CHECK(!is_watched_);  // one thread reads the words
      is_watched_ = true;
      pieces_.wait_for(mutex_, nap);
      is_watched_ = false;
    }
    nap = look() ? kFirstNap : std::min(2 * nap, kLongestNap);
  }
}

void HostWork::stop() {
  const MutexLock lock(mutex_);
  BERTH_CHECK(lanes_.empty());  // else a stream would never pass its gate
  stopped_ = true;
  pieces_.notify_all();
}

void HostWork::cancel(const CopyPtr& copy, std::exception_ptr failure) noexcept {
  const MutexLock lock(mutex_);
  if (copy->lane == nullptr) return;
  if (copy->is_all_taken() && copy->pieces_in_hand() == 0) return;  // everything has been copied
  copy->give_up(std::move(failure));
  copy->open_gates_if_given_up();
}

std::size_t HostWork::copies_under_way() const {
  const MutexLock lock(mutex_);
  return copies_.size();
}

}  // namespace berth
