// SPDX-License-Identifier: Apache-2.0
// Several transfers that were started together, as one.
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
  /// That of the first part with a failure.
  [[nodiscard]] std::exception_ptr failure() const override;
  std::size_t bytes_done() override;
  void cancel() noexcept override;
  void let_go() noexcept override;
  void detach() noexcept override;
  void promise_to_tell() noexcept override;

 private:
  std::vector<Transfer> parts_;  ///< each is safe from any thread; the list never changes
};

}  // namespace berth
