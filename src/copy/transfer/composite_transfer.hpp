// SPDX-License-Identifier: Apache-2.0
// Combines several transfers that were started together.
#pragma once

#include <cstddef>
#include <exception>
#include <utility>
#include <vector>

#include "copy/transfer/transfer_state.hpp"

namespace berth {

class CompositeTransfer final : public TransferState {
 public:
  explicit CompositeTransfer(std::vector<Transfer> parts);

  bool is_done() override;
  void wait() override;
  /// The failure of the first part that failed.
  [[nodiscard]] std::exception_ptr failure() const override;
  std::size_t bytes_done() override;
  void cancel() noexcept override;
  void abandon() noexcept override;
  void detach() noexcept override;
  void suppress_failure_report() noexcept override;

 private:
  std::vector<Transfer> parts_;  ///< each is safe from any thread; the list never changes
};

}  // namespace berth
