// SPDX-License-Identifier: Apache-2.0
#include "capi/capi_transfer.hpp"

#include <span>
#include <utility>
#include <vector>

#include "capi/capi_convert.hpp"
#include "capi/capi_error.hpp"
#include "capi/capi_file.hpp"

using namespace berth;
using namespace berth::capi;

namespace {

std::vector<CopyRange> to_ranges(const berth_copy_range* copies, std::size_t count) {
  std::vector<CopyRange> ranges;
  if (count == 0) return ranges;
  for (const berth_copy_range& copy : std::span(&require(copies, "copies"), count))
    ranges.push_back({copy.target, copy.source, copy.bytes});
  return ranges;
}

}  // namespace

berth_status berth_transfer_start(berth_runtime* runtime, void* target, const void* source,
                                  size_t bytes, berth_stream stream,
                                  berth_completion_function on_done, void* user,
                                  berth_transfer** transfer) {
  return start_transfer(
      runtime, on_done, user, transfer, [&](Runtime& owner, TransferOptions options) {
        return owner.copier().start(target, source, bytes, to_stream(stream), std::move(options));
      });
}

berth_status berth_transfer_start_between(berth_runtime* runtime, void* target, const void* source,
                                          size_t bytes, berth_stream target_stream,
                                          berth_stream source_stream,
                                          berth_completion_function on_done, void* user,
                                          berth_transfer** transfer) {
  return start_transfer(runtime, on_done, user, transfer,
                        [&](Runtime& owner, TransferOptions options) {
                          return owner.copier().start(target, source, bytes,
                                                      to_copy_streams(target_stream, source_stream),
                                                      std::move(options));
                        });
}

berth_status berth_transfer_start_rows(berth_runtime* runtime, void* target, size_t target_pitch,
                                       const void* source, size_t source_pitch, size_t row_bytes,
                                       size_t rows, berth_stream stream,
                                       berth_completion_function on_done, void* user,
                                       berth_transfer** transfer) {
  return start_transfer(
      runtime, on_done, user, transfer, [&](Runtime& owner, TransferOptions options) {
        return owner.copier().start_rows({target, target_pitch}, {source, source_pitch}, row_bytes,
                                         rows, to_stream(stream), std::move(options));
      });
}

berth_status berth_transfer_start_rows_between(
    berth_runtime* runtime, void* target, size_t target_pitch, const void* source,
    size_t source_pitch, size_t row_bytes, size_t rows, berth_stream target_stream,
    berth_stream source_stream, berth_completion_function on_done, void* user,
    berth_transfer** transfer) {
  return start_transfer(
      runtime, on_done, user, transfer, [&](Runtime& owner, TransferOptions options) {
        return owner.copier().start_rows({target, target_pitch}, {source, source_pitch}, row_bytes,
                                         rows, to_copy_streams(target_stream, source_stream),
                                         std::move(options));
      });
}

berth_status berth_transfer_start_batch(berth_runtime* runtime, const berth_copy_range* copies,
                                        size_t count, berth_stream stream,
                                        berth_completion_function on_done, void* user,
                                        berth_transfer** transfer) {
  return start_transfer(runtime, on_done, user, transfer,
                        [&](Runtime& owner, TransferOptions options) {
                          return owner.copier().start_batch(to_ranges(copies, count),
                                                            to_stream(stream), std::move(options));
                        });
}

berth_status berth_transfer_start_batch_between(berth_runtime* runtime,
                                                const berth_copy_range* copies, size_t count,
                                                berth_stream target_stream,
                                                berth_stream source_stream,
                                                berth_completion_function on_done, void* user,
                                                berth_transfer** transfer) {
  return start_transfer(
      runtime, on_done, user, transfer, [&](Runtime& owner, TransferOptions options) {
        return owner.copier().start_batch(to_ranges(copies, count),
                                          to_copy_streams(target_stream, source_stream),
                                          std::move(options));
      });
}

berth_status berth_transfer_start_from_file(berth_runtime* runtime, void* target,
                                            berth_file* source, uint64_t offset, size_t bytes,
                                            berth_stream stream, berth_completion_function on_done,
                                            void* user, berth_transfer** transfer) {
  return start_transfer(
      runtime, on_done, user, transfer, [&](Runtime& owner, TransferOptions options) {
        const FileRange range{require(source, "source").file, offset, bytes};
        return owner.copier().start(target, range, to_stream(stream), std::move(options));
      });
}

berth_status berth_transfer_start_to_file(berth_runtime* runtime, berth_file* target,
                                          uint64_t offset, const void* source, size_t bytes,
                                          berth_stream stream, berth_completion_function on_done,
                                          void* user, berth_transfer** transfer) {
  return start_transfer(
      runtime, on_done, user, transfer, [&](Runtime& owner, TransferOptions options) {
        const FileRange range{require(target, "target").file, offset, bytes};
        return owner.copier().start(range, source, to_stream(stream), std::move(options));
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
