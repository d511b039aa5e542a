// SPDX-License-Identifier: Apache-2.0
#include "copy/transfer/composite_transfer.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace berth {
namespace {

std::size_t bytes_of(const std::vector<Transfer>& parts) {
  return std::accumulate(parts.begin(), parts.end(), std::size_t{0},
                         [](std::size_t sum, const Transfer& part) { return sum + part.bytes(); });
}

}  // namespace

CompositeTransfer::CompositeTransfer(std::vector<Transfer> parts)
    : TransferState(bytes_of(parts)), parts_(std::move(parts)) {}

bool CompositeTransfer::is_done() {
  return std::ranges::all_of(parts_, [](const Transfer& part) { return part.is_done(); });
}

void CompositeTransfer::wait() {
  for (const Transfer& part : parts_) {
    try {
      part.wait();
    } catch (...) {
      continue;  // failure() reports it, and the other parts are still pending
    }
  }
}

std::exception_ptr CompositeTransfer::failure() const {
  for (const Transfer& part : parts_) {
    if (std::exception_ptr failure = part.failure()) return failure;
  }
  return nullptr;
}

std::size_t CompositeTransfer::bytes_done() {
  return std::accumulate(
      parts_.begin(), parts_.end(), std::size_t{0},
      [](std::size_t sum, const Transfer& part) { return sum + part.bytes_done(); });
}

void CompositeTransfer::cancel() noexcept {
  for (Transfer& part : parts_) part.cancel();
}

void CompositeTransfer::abandon() noexcept {
  for (Transfer& part : parts_) {
    if (part.state_ != nullptr) part.state_->abandon();
  }
}

void CompositeTransfer::suppress_failure_report() noexcept {
  for (Transfer& part : parts_) {
    if (part.state_ != nullptr) part.state_->suppress_failure_report();
  }
}

void CompositeTransfer::detach() noexcept {
  for (Transfer& part : parts_) part.detach();
}

}  // namespace berth
