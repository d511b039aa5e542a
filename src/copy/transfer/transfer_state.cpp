// SPDX-License-Identifier: Apache-2.0
#include "copy/transfer/transfer_state.hpp"

#include "base/check.hpp"

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

Transfer::Transfer(const std::shared_ptr<TransferState>& state)
    : state_(state == nullptr
                 ? nullptr
                 : std::shared_ptr<TransferState>(state.get(), [state](TransferState* held) {
                     if (held->is_here()) held->abandon();
                   })) {}

bool Transfer::is_done() const {
  if (state_ == nullptr) return true;
  state_->require_here();
  return state_->is_done();
}

void Transfer::wait() const {
  if (state_ == nullptr) return;
  state_->require_here();
  state_->wait();
  if (const std::exception_ptr failure = state_->failure()) std::rethrow_exception(failure);
}

std::exception_ptr Transfer::failure() const noexcept {
  return state_ == nullptr || !state_->is_here() ? nullptr : state_->failure();
}

std::size_t Transfer::bytes() const noexcept {
  return state_ == nullptr ? 0 : state_->bytes();
}

std::size_t Transfer::bytes_done() const {
  if (state_ == nullptr) return 0;
  state_->require_here();
  const std::size_t done = state_->bytes_done();
  BERTH_CHECK(done <= state_->bytes());
  return done;
}

double Transfer::bytes_per_second() const {
  if (state_ == nullptr) return 0;
  state_->require_here();
  return state_->bytes_per_second();
}

void Transfer::cancel() const noexcept {
  if (state_ != nullptr && state_->is_here()) state_->cancel();
}

void Transfer::detach() const noexcept {
  if (state_ != nullptr && state_->is_here()) state_->detach();
}

}  // namespace berth
