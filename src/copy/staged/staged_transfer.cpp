// SPDX-License-Identifier: Apache-2.0
#include "copy/staged/staged_transfer.hpp"

#include <algorithm>
#include <atomic>

namespace berth {

bool StagedTransfer::is_done() {
  if (!copy_->is_over.load(std::memory_order_acquire)) work_.look();
  if (!copy_->is_over.load(std::memory_order_acquire)) return false;
  copy_->tell_caller();
  return true;
}

std::size_t StagedTransfer::bytes_done() {
  const std::size_t done = copy_->bytes_done();
  return std::min(bytes(), done - std::min(done, bytes_before_));
}

std::exception_ptr StagedTransfer::failure() const {
  const std::exception_ptr failure = copy_->failure();
  if (failure != nullptr) copy_->be_told();
  return failure;
}

void StagedTransfer::cancel() noexcept {
  copy_->be_told();
  work_.cancel(copy_, work_.cancelled());
}

void StagedTransfer::finish_host_side() noexcept {
  if (!is_lent_) return;
  try {
    work_.complete_host_side(copy_);
  } catch (...) {  // no memory
    work_.await_host_side(copy_);
  }
}

void StagedTransfer::let_go() noexcept {
  finish_host_side();
  copy_->be_forgotten();
}

}  // namespace berth
