// SPDX-License-Identifier: Apache-2.0
#include <memory>

#include "capi/capi_convert.hpp"
#include "capi/capi_error.hpp"

using namespace berth;
using namespace berth::capi;

struct berth_transfer {
  Transfer transfer;
};

berth_status berth_transfer_start(berth_runtime* runtime, void* target, const void* source,
                                  size_t bytes, berth_stream stream,
                                  berth_completion_function on_done, void* user,
                                  berth_transfer** transfer) {
  return guarded([&] {
    Runtime& owner = to_runtime(runtime);
    TransferOptions options;
    if (on_done != nullptr) options.on_done = to_callback(on_done, user);
    auto started = std::make_unique<berth_transfer>();
    started->transfer =
        owner.copier().start(target, source, bytes, to_stream(stream), std::move(options));
    if (transfer != nullptr) *transfer = started.release();
  });
}

void berth_transfer_release(berth_transfer* transfer) {
  delete transfer;
}

berth_status berth_transfer_is_done(berth_transfer* transfer, bool* done) {
  return guarded([&] {
    const Transfer& asked = require(transfer, "transfer").transfer;
    require(done, "done") = asked.is_done();
  });
}

berth_status berth_transfer_wait(berth_transfer* transfer) {
  return guarded([&] { require(transfer, "transfer").transfer.wait(); });
}

berth_status berth_transfer_progress(berth_transfer* transfer, size_t* bytes_done,
                                     double* bytes_per_second) {
  return guarded([&] {
    const Transfer& asked = require(transfer, "transfer").transfer;
    if (bytes_done != nullptr) *bytes_done = asked.bytes_done();
    if (bytes_per_second != nullptr) *bytes_per_second = asked.bytes_per_second();
  });
}

void berth_transfer_cancel(berth_transfer* transfer) {
  if (transfer != nullptr) transfer->transfer.cancel();
}
