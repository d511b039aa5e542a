// SPDX-License-Identifier: Apache-2.0
#include "copy/staged/staged_transfer.hpp"

#include <algorithm>
#include <atomic>

namespace berth {

bool StagedTransfer::is_done() {
  if (!copy_->has_ended.load(std::memory_order_acquire)) work_.poll_progress();
  if (!copy_->has_ended.load(std::memory_order_acquire)) return false;
  copy_->report_observed_progress();
  return true;
}

std::size_t StagedTransfer::bytes_done() {
  const std::size_t done = copy_->bytes_done();
  return std::min(bytes(), done - std::min(done, bytes_before_));
}

std::exception_ptr StagedTransfer::failure() const {
  const std::exception_ptr failure = copy_->failure();
  if (failure != nullptr) copy_->suppress_failure_report();
  return failure;
}

void StagedTransfer::cancel() noexcept {
  copy_->suppress_failure_report();
  work_.cancel(copy_, work_.cancelled());
}

void StagedTransfer::finish_host_side() noexcept {
  if (!is_borrowed_) return;
  try {
    work_.complete_host_side(copy_);
  } catch (...) {  // std::bad_alloc
    work_.wait_for_host_side(copy_);
  }
}

void StagedTransfer::abandon() noexcept {
  finish_host_side();
  copy_->abandon();
}

}  // namespace berth
