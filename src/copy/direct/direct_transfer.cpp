// SPDX-License-Identifier: Apache-2.0
#include "copy/direct/direct_transfer.hpp"

#include <optional>

#include "base/check.hpp"
#include "device/device_context.hpp"
#include "stream/capture.hpp"
#include "stream/wait.hpp"
#include "stream/wait_after_failure.hpp"

namespace berth {

void DirectTransfer::poll_marks() {
  if (passed_ == steps_.size() || failure_ != nullptr) return;
  const Driver& driver = steps_.back().mark->context().driver();
  const RelaxedCapture relaxed(driver);
  try {
    while (passed_ < steps_.size()) {
      const CUresult result = query_repeatedly(steps_[passed_].mark.ref());
      if (!driver.succeeded(DriverCall::event_query, result, CUDA_ERROR_NOT_READY)) break;
      bytes_passed_ += steps_[passed_].bytes;
      // A thread may be waiting for the last one.
      if (++passed_ < steps_.size()) steps_[passed_ - 1].mark = {};
    }
    BERTH_CHECK(passed_ < steps_.size() ? bytes_passed_ < bytes() : bytes_passed_ == bytes());
  } catch (...) {  // or std::bad_alloc for the message
    failure_ = std::current_exception();
  }
}

void DirectTransfer::add_step(EventLease mark, std::size_t bytes) {
  BERTH_CHECK(passed_ == 0);  // steps are added without the lock, before the first query
  BERTH_CHECK(bytes > 0 && bytes <= this->bytes() - bytes_added_);
  steps_.push_back({std::move(mark), bytes});
  bytes_added_ += bytes;
}

bool DirectTransfer::is_done() {
  const MutexLock lock(mutex_);
  poll_marks();
  return passed_ == steps_.size() || failure_ != nullptr;
}

void DirectTransfer::wait() {
  std::optional<EventRef> last;
  std::exception_ptr failure;
  {
    const MutexLock lock(mutex_);
    if (passed_ == steps_.size()) return;
    last = steps_.back().mark.ref();
    failure = failure_;
  }
  try {
    const ContextScope scope(last->context());
    if (failure == nullptr) wait_for(*last);
  } catch (...) {  // or std::bad_alloc for the message
    failure = std::current_exception();
  }
  if (failure != nullptr) wait_after_failure(*last);  // in case only the query has failed
  const MutexLock lock(mutex_);
  passed_ = steps_.size();
  if (failure_ == nullptr) failure_ = failure;
  if (failure_ == nullptr) bytes_passed_ = bytes();
}

void DirectTransfer::abandon() noexcept {
  if (is_borrowed_) wait();
}

std::exception_ptr DirectTransfer::failure() const {
  const MutexLock lock(mutex_);
  return failure_;
}

std::size_t DirectTransfer::bytes_done() {
  const MutexLock lock(mutex_);
  poll_marks();
  return bytes_passed_;
}

}  // namespace berth
