// SPDX-License-Identifier: Apache-2.0
// Driver queries of HostWork, and waits for copies: a waiting thread does host work, and blocks in
// the driver only for work that the device completes without the host.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <exception>
#include <new>
#include <optional>
#include <utility>

#include "copy/staged/host_work.hpp"
#include "device/device_context.hpp"
#include "driver/acting_for.hpp"
#include "stream/capture.hpp"
#include "stream/wait.hpp"

namespace berth {
namespace {

/// The period at which a thread that waits for another thread checks its condition.
constexpr std::chrono::microseconds kRecheckPeriod{500};

/// Sets `failure` if the answer is `failed`.
template <class Query>
MarkState try_query(const StagedCopy& copy, EventRef event, const Query& query,
                    std::exception_ptr& failure) noexcept {
  try {
    const ContextScope scope(event.context());
    const ActingFor acting(event.context().driver(), &copy);
    return query(event.context().driver(), event) ? MarkState::completed : MarkState::not_yet;
  } catch (...) {
    failure = std::current_exception();
    return MarkState::failed;
  }
}

bool query_event(const Driver& driver, EventRef event) {
  return driver.succeeded(DriverCall::event_query, driver.try_event_query(event.native()),
                          CUDA_ERROR_NOT_READY);
}

bool synchronize(const Driver&, EventRef event) {
  block_for(event);
  return true;
}

/// Whether the device continues, although queries of `event` fail. All calls for a failed device
/// return its error; a query of memory does not wait.
/// Source: CUDA Driver API, cuMemGetInfo: "this function may also return error codes from previous,
/// asynchronous launches".
bool device_continues(EventRef event) noexcept {
  try {
    const Driver& driver = event.context().driver();
    const ContextScope scope(event.context());
    const RelaxedCapture relaxed(driver);
    std::size_t free = 0;
    std::size_t total = 0;
    return driver.try_mem_get_info(&free, &total) == CUDA_SUCCESS;
  } catch (const std::exception&) {  // an Error, or a lack of memory for its message
    return false;
  }
}

}  // namespace

template <class Query>
MarkState HostWork::query_mark(const CopyPtr& copy, const StagedCopy::Mark& mark,
                               const Query& query) {
  std::exception_ptr failure;
  MarkState state = try_query(*copy, mark.event->ref(), query, failure);
  // Only the query may have failed. The slots of a copy must not be reused while the device uses
  // them. The words report its end.
  if (state == MarkState::failed && device_continues(mark.event->ref())) state = MarkState::not_yet;
  if (state == MarkState::not_yet) return state;
  {
    const MutexLock lock(mutex_);
    // The words may have reported the completion meanwhile.
    if (copy->lane == nullptr) return MarkState::completed;
    if (state == MarkState::failed) {
      copy->fail(failure);
      copy->open_gates_if_failed();
      end_device(*copy);
    } else {
      copy->pass(mark);
      update_ready(*copy);
    }
    changed_.notify_all();
  }
  end_if_complete(copy);
  return state;
}

std::optional<HostWork::MarkQuery> HostWork::query_for(const CopyPtr& copy) {
  std::optional<StagedCopy::Mark> mark = copy->next_mark();
  if (!mark) return std::nullopt;
  return MarkQuery{copy, std::move(*mark), copy->lane};
}

std::optional<HostWork::MarkQuery> HostWork::next_query() {
  const MutexLock lock(mutex_);
  if (lanes_.empty()) return std::nullopt;
  lanes_.splice(lanes_.end(), lanes_, lanes_.begin());
  return query_for(lanes_.back()->first());
}

void HostWork::query_device(std::size_t streams) {
  {
    const MutexLock lock(mutex_);
    streams = std::min(streams, lanes_.size());
  }
  for (; streams > 0; --streams) {
    std::optional<MarkQuery> next = next_query();
    while (next) {
      if (query_mark(next->copy, next->mark, query_event) != MarkState::failed) break;
      const LanePtr lane = std::move(next->lane);
      const MutexLock lock(mutex_);
      next = lane->copies.empty() ? std::nullopt : query_for(lane->copies.front());
    }
  }
}

bool HostWork::wait_for_progress(const CopyPtr& copy) {
  std::optional<StagedCopy::Mark> mark;
  {
    const MutexLock lock(mutex_);
    mark = copy->next_sure_mark();
    if (!mark) {
      if (!copy->is_complete && !copy->has_piece()) changed_.wait_for(mutex_, kRecheckPeriod);
      return false;
    }
  }
  if (query_mark(copy, *mark, synchronize) != MarkState::not_yet) return true;
  const MutexLock lock(mutex_);  // only the wait has failed
  if (!copy->is_complete) changed_.wait_for(mutex_, kRecheckPeriod);
  return true;
}

bool HostWork::progress_or_wait(const CopyPtr& first) {
  if (first == nullptr || process_piece_of(first) || poll_copy(*first)) return false;
  return wait_for_progress(first);
}

bool HostWork::complete(const CopyPtr& copy) {
  bool waited = false;
  while (!copy->is_complete.load(std::memory_order_acquire)) {
    const CopyPtr first = first_of_lane(*copy);
    if (first != nullptr) {
      waited |= progress_or_wait(first);
      continue;
    }
    if (take_from_owned(copy)) {
      release_owner(*copy);
      break;
    }
    const MutexLock lock(mutex_);  // another thread is completing it
    if (!copy->is_complete) changed_.wait_for(mutex_, kRecheckPeriod);
  }
  copy->report_observed_progress();
  return waited;
}

bool HostWork::is_host_side_done(const StagedCopy& copy) {
  return (copy.is_all_taken() || copy.has_failed()) && copy.pieces_in_progress() == 0;
}

bool HostWork::complete_host_side(const CopyPtr& copy) {
  bool waited = false;
  for (;;) {
    if (process_piece_of(copy)) continue;
    {
      const MutexLock lock(mutex_);
      if (is_host_side_done(*copy)) return waited;
      if (copy->is_all_taken()) {  // by other threads
        changed_.wait(mutex_);
        continue;
      }
    }
    waited |= progress_or_wait(first_of_lane(*copy));
  }
}

void HostWork::wait_for_host_side(const CopyPtr& copy) noexcept {
  const MutexLock lock(mutex_);
  while (!is_host_side_done(*copy)) changed_.wait_for(mutex_, kRecheckPeriod);
}

void HostWork::complete_all() {
  for (;;) {
    CopyPtr first;
    {
      const MutexLock lock(mutex_);
      if (lanes_.empty()) return;
      first = lanes_.front()->first();
    }
    complete(first);
  }
}

}  // namespace berth
