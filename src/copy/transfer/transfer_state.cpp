// SPDX-License-Identifier: Apache-2.0
#include "copy/transfer/transfer_state.hpp"

#include <utility>

#include "berth/error.hpp"

#include "device/device_context.hpp"
#include "stream/capture.hpp"
#include "stream/settle.hpp"

namespace berth {

double TransferState::bytes_per_second() {
  const bool done = is_done();
  const std::size_t bytes = bytes_done();
  const MutexLock lock(mutex_);
  const Clock::time_point now = Clock::now();
  if (done && end_ == Clock::time_point{}) end_ = now;
  const std::chrono::duration<double> seconds = (done ? end_ : now) - start_;
  return seconds.count() > 0 ? static_cast<double>(bytes) / seconds.count() : 0;
}

bool StagedTransfer::is_done() {
  if (!copy_->is_over.load(std::memory_order_acquire)) work_.look();
  return copy_->is_over.load(std::memory_order_acquire);
}

std::size_t StagedTransfer::bytes_done() {
  const std::size_t done = copy_->bytes_done();
  return std::min(bytes(), done - std::min(done, bytes_before_));
}

void StagedTransfer::cancel() noexcept {
  work_.cancel(copy_, std::make_exception_ptr(Cancelled("the transfer has been cancelled")));
}

void DirectTransfer::ask() {
  if (passed_ == steps_.size() || failure_ != nullptr) return;
  RelaxedCapture relaxed(steps_.front().mark->context().driver());
  relaxed.begin();
  try {
    while (passed_ < steps_.size() && steps_[passed_].mark->is_done())
      bytes_passed_ += steps_[passed_++].bytes;
  } catch (const Error&) {
    failure_ = std::current_exception();
  }
}

bool DirectTransfer::is_done() {
  const MutexLock lock(mutex_);
  ask();
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
    if (failure == nullptr) last->sync();
  } catch (const Error&) {
    failure = std::current_exception();
  }
  if (failure != nullptr) settle(*last);  // perhaps the answer alone has failed
  const MutexLock lock(mutex_);
  passed_ = steps_.size();
  bytes_passed_ = bytes();
  if (failure_ == nullptr) failure_ = failure;
}

std::exception_ptr DirectTransfer::failure() const {
  const MutexLock lock(mutex_);
  return failure_;
}

std::size_t DirectTransfer::bytes_done() {
  const MutexLock lock(mutex_);
  ask();
  return bytes_passed_;
}

bool Transfer::is_done() const {
  return state_ == nullptr || state_->is_done();
}

void Transfer::wait() const {
  if (state_ == nullptr) return;
  state_->wait();
  if (const std::exception_ptr failure = state_->failure()) std::rethrow_exception(failure);
}

std::exception_ptr Transfer::failure() const noexcept {
  return state_ == nullptr ? nullptr : state_->failure();
}

std::size_t Transfer::bytes() const noexcept {
  return state_ == nullptr ? 0 : state_->bytes();
}

std::size_t Transfer::bytes_done() const {
  return state_ == nullptr ? 0 : state_->bytes_done();
}

double Transfer::bytes_per_second() const {
  return state_ == nullptr ? 0 : state_->bytes_per_second();
}

void Transfer::cancel() noexcept {
  if (state_ != nullptr) state_->cancel();
}

}  // namespace berth
