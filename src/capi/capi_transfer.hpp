// SPDX-License-Identifier: Apache-2.0
// The common part of the functions that start a transfer.
#pragma once

#include <memory>
#include <utility>

#include "capi/capi_convert.hpp"
#include "capi/capi_error.hpp"

struct berth_transfer {
  berth::Transfer transfer;
};

namespace berth::capi {

/// Calls berth_transfer_options.release when the last reference ends, if the transfer was started.
/// Threads  One at a time; the last reference may end on any thread.
class Ownership {
 public:
  Ownership(void (*release)(void* owner), void* owner) : release_(release), owner_(owner) {}
  ~Ownership() {
    if (is_started_) release_(owner_);
  }
  Ownership(const Ownership&) = delete;
  Ownership& operator=(const Ownership&) = delete;

  /// The caller must hold a reference, so that the last release sees this.
  void set_started() noexcept { is_started_ = true; }

 private:
  void (*const release_)(void* owner);
  void* const owner_;
  bool is_started_ = false;
};

/// Null `options`: the defaults.
TransferOptions to_transfer_options(const berth_transfer_options* options,
                                    const std::shared_ptr<Ownership>& ownership);
std::shared_ptr<Ownership> to_ownership(const berth_transfer_options* options);

/// `start` receives the options, and returns the Transfer. `transfer` may be null, and is unchanged
/// if `start` throws.
template <class Start>
void start_detached(const berth_transfer_options* options, berth_transfer** transfer,
                    const Start& start) {
  const std::shared_ptr<Ownership> ownership = to_ownership(options);
  auto started = std::make_unique<berth_transfer>();
  started->transfer = start(to_transfer_options(options, ownership));
  if (ownership != nullptr) ownership->set_started();
  started->transfer.detach();  // C has no destructors, and berth_transfer_release() does not wait
  if (transfer != nullptr) *transfer = started.release();
}

/// The same with the runtime.
template <class Start>
berth_status start_transfer(berth_runtime* runtime, const berth_transfer_options* options,
                            berth_transfer** transfer, const Start& start) {
  return guarded([&] {
    Runtime& owner = to_runtime(runtime);
    start_detached(options, transfer,
                   [&](TransferOptions chosen) { return start(owner, std::move(chosen)); });
  });
}

}  // namespace berth::capi
