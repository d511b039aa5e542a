// SPDX-License-Identifier: Apache-2.0
// Driver queries of HostWork, and waits for copies: a waiting thread does the host's share, and
// blocks in the driver only for work that the device completes without the host.
#include <algorithm>
#include <chrono>
#include <exception>
#include <optional>
#include <utility>

#include "copy/staged/host_work.hpp"
#include "device/device_context.hpp"
#include "driver/acting_for.hpp"
#include "stream/capture.hpp"
#include "stream/wait.hpp"

namespace berth {
namespace {

/// How long a thread waits for another thread before it checks again.
constexpr std::chrono::microseconds kPatience{500};

enum class Answer { passed, not_yet, failed };

/// Sets `failure` if the answer is `failed`.
template <class Ask>
Answer ask_driver(const StagedCopy& copy, EventRef event, const Ask& ask,
                  std::exception_ptr& failure) noexcept {
  try {
    const ContextScope scope(event.context());
    const ActingFor acting(event.context().driver(), &copy);
    return ask(event.context().driver(), event) ? Answer::passed : Answer::not_yet;
  } catch (...) {
    failure = std::current_exception();
    return Answer::failed;
  }
}

bool query(const Driver& driver, EventRef event) {
  return driver.succeeded(DriverCall::event_query, driver.try_event_query(event.native()),
                          CUDA_ERROR_NOT_READY);
}

/// On a thread whose capture mode the program has chosen.
bool query_relaxed(const Driver& driver, EventRef event) {
  const RelaxedCapture relaxed(driver);
  return query(driver, event);
}

bool synchronize(const Driver&, EventRef event) {
  block_for(event);
  return true;
}

}  // namespace

template <class Ask>
bool HostWork::ask_about(const CopyPtr& copy, const StagedCopy::Mark& mark, const Ask& ask) {
  std::exception_ptr failure;
  Answer answer = ask_driver(*copy, mark.event->ref(), ask, failure);
  // Perhaps only the query has failed, and the device continues.
  if (answer == Answer::failed)
    answer = ask_driver(*copy, mark.event->ref(), query_relaxed, failure);
  if (answer == Answer::not_yet) return true;
  {
    const MutexLock lock(mutex_);
    if (copy->lane == nullptr) return true;  // the words have reported the end meanwhile
    if (answer == Answer::failed) {
      copy->give_up(failure);
      copy->open_gates_if_given_up();
      copy->end_device();
    } else {
      copy->pass(mark);
    }
    note_pieces(*copy);
    changed_.notify_all();
  }
  end_if_over(copy);
  return answer != Answer::failed;
}

std::optional<HostWork::Question> HostWork::question_about(const CopyPtr& copy) {
  std::optional<StagedCopy::Mark> mark = copy->next_mark();
  if (!mark) return std::nullopt;
  return Question{copy, std::move(*mark), copy->lane};
}

std::optional<HostWork::Question> HostWork::next_question() {
  const MutexLock lock(mutex_);
  if (lanes_.empty()) return std::nullopt;
  lanes_.splice(lanes_.end(), lanes_, lanes_.begin());
  return question_about(lanes_.back()->copies.front());
}

void HostWork::ask_device(std::size_t streams) {
  {
    const MutexLock lock(mutex_);
    streams = std::min(streams, lanes_.size());
  }
  for (; streams > 0; --streams) {
    std::optional<Question> question = next_question();
    while (question) {
      if (ask_about(question->copy, question->mark, query)) break;
      const LanePtr lane = std::move(question->lane);
      const MutexLock lock(mutex_);
      question = lane->copies.empty() ? std::nullopt : question_about(lane->copies.front());
    }
  }
}

bool HostWork::wait_for_progress(const CopyPtr& copy) {
  std::optional<StagedCopy::Mark> mark;
  {
    const MutexLock lock(mutex_);
    mark = copy->next_sure_mark();
    if (!mark) {
      if (!copy->is_over && !copy->has_piece()) changed_.wait_for(mutex_, kPatience);
      return false;
    }
  }
  ask_about(copy, *mark, synchronize);
  return true;
}

bool HostWork::go_on(const CopyPtr& first) {
  if (first == nullptr || help_with(first) || look_at(*first)) return false;
  return wait_for_progress(first);
}

bool HostWork::complete(const CopyPtr& copy) {
  bool waited = false;
  while (!copy->is_over.load(std::memory_order_acquire)) {
    const CopyPtr first = first_of_lane(*copy);
    if (first != nullptr) {
      waited |= go_on(first);
      continue;
    }
    const MutexLock lock(mutex_);  // another thread is ending it
    if (!copy->is_over) changed_.wait_for(mutex_, kPatience);
  }
  copy->tell_caller();
  return waited;
}

bool HostWork::is_host_side_done(const StagedCopy& copy) {
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
    waited |= go_on(first_of_lane(*copy));
  }
}

void HostWork::await_host_side(const CopyPtr& copy) noexcept {
  const MutexLock lock(mutex_);
  while (!is_host_side_done(*copy)) changed_.wait_for(mutex_, kPatience);
}

void HostWork::complete_all() {
  for (;;) {
    CopyPtr first;
    {
      const MutexLock lock(mutex_);
      if (lanes_.empty()) return;
      first = lanes_.front()->copies.front();
    }
    complete(first);
  }
}

}  // namespace berth
