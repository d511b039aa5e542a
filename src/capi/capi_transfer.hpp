// SPDX-License-Identifier: Apache-2.0
// What the functions that start a transfer have in common.
#pragma once

#include <memory>
#include <utility>

#include "capi/capi_convert.hpp"
#include "capi/capi_error.hpp"

struct berth_transfer {
  berth::Transfer transfer;
};

namespace berth::capi {

/// `start` gets the runtime and the options, and gives the Transfer. `transfer` may be null, and is
/// untouched where it throws.
template <class Start>
berth_status start_transfer(berth_runtime* runtime, berth_completion_function on_done, void* user,
                            berth_transfer** transfer, const Start& start) {
  return guarded([&] {
    Runtime& owner = to_runtime(runtime);
    TransferOptions options;
    if (on_done != nullptr) options.on_done = to_callback(on_done, user);
    auto started = std::make_unique<berth_transfer>();
    started->transfer = start(owner, std::move(options));
    started->transfer.detach();  // C has no destructors, and berth_transfer_release() does not wait
    if (transfer != nullptr) *transfer = started.release();
  });
}

}  // namespace berth::capi
