// SPDX-License-Identifier: Apache-2.0
#include "capi/capi_transfer.hpp"

#include <exception>
#include <span>
#include <utility>
#include <vector>

#include "capi/capi_convert.hpp"
#include "capi/capi_error.hpp"
#include "capi/capi_file.hpp"

using namespace berth;
using namespace berth::capi;

namespace berth::capi {
namespace {

berth_transfer_options read_options(const berth_transfer_options* options) {
  return options != nullptr ? read_struct(options, "options") : berth_transfer_options{};
}

}  // namespace

std::shared_ptr<Ownership> to_ownership(const berth_transfer_options* options) {
  const berth_transfer_options given = read_options(options);
  if (given.release == nullptr) return nullptr;
  return std::make_shared<Ownership>(given.release, given.owner);
}

TransferOptions to_transfer_options(const berth_transfer_options* options,
                                    const std::shared_ptr<Ownership>& ownership) {
  const berth_transfer_options given = read_options(options);
  TransferOptions chosen;
  chosen.keep_alive = ownership;
  if (given.has_priority != 0) chosen.priority = given.priority;
  chosen.part_bytes = given.part_bytes;
  if (given.on_done != nullptr) chosen.on_done = to_callback(given.on_done, given.user);
  return chosen;
}

}  // namespace berth::capi

namespace {

std::vector<CopyRange> to_ranges(const berth_copy_range* copies, std::size_t count) {
  std::vector<CopyRange> ranges;
  for (const berth_copy_range& copy : require_array(copies, count, "copies"))
    ranges.push_back({copy.target, copy.source, copy.bytes});
  return ranges;
}

}  // namespace

berth_status berth_transfer_start(berth_runtime* runtime, void* target, const void* source,
                                  size_t bytes, berth_stream stream,
                                  const berth_transfer_options* options,
                                  berth_transfer** transfer) {
  return start_transfer(runtime, options, transfer, [&](Runtime& owner, TransferOptions chosen) {
    return owner.copier().start(target, source, bytes, to_stream(stream), std::move(chosen));
  });
}

berth_status berth_transfer_start_between(berth_runtime* runtime, void* target, const void* source,
                                          size_t bytes, berth_stream target_stream,
                                          berth_stream source_stream,
                                          const berth_transfer_options* options,
                                          berth_transfer** transfer) {
  return start_transfer(runtime, options, transfer, [&](Runtime& owner, TransferOptions chosen) {
    return owner.copier().start(target, source, bytes,
                                to_copy_streams(target_stream, source_stream), std::move(chosen));
  });
}

berth_status berth_transfer_start_rows(berth_runtime* runtime, void* target, size_t target_pitch,
                                       const void* source, size_t source_pitch, size_t row_bytes,
                                       size_t rows, berth_stream stream,
                                       const berth_transfer_options* options,
                                       berth_transfer** transfer) {
  return start_transfer(runtime, options, transfer, [&](Runtime& owner, TransferOptions chosen) {
    return owner.copier().start_rows({target, target_pitch}, {source, source_pitch}, row_bytes,
                                     rows, to_stream(stream), std::move(chosen));
  });
}

berth_status berth_transfer_start_rows_between(
    berth_runtime* runtime, void* target, size_t target_pitch, const void* source,
    size_t source_pitch, size_t row_bytes, size_t rows, berth_stream target_stream,
    berth_stream source_stream, const berth_transfer_options* options, berth_transfer** transfer) {
  return start_transfer(runtime, options, transfer, [&](Runtime& owner, TransferOptions chosen) {
    return owner.copier().start_rows({target, target_pitch}, {source, source_pitch}, row_bytes,
                                     rows, to_copy_streams(target_stream, source_stream),
                                     std::move(chosen));
  });
}

berth_status berth_transfer_start_batch(berth_runtime* runtime, const berth_copy_range* copies,
                                        size_t count, berth_stream stream,
                                        const berth_transfer_options* options,
                                        berth_transfer** transfer) {
  return start_transfer(runtime, options, transfer, [&](Runtime& owner, TransferOptions chosen) {
    return owner.copier().start_batch(to_ranges(copies, count), to_stream(stream),
                                      std::move(chosen));
  });
}

berth_status berth_transfer_start_batch_between(berth_runtime* runtime,
                                                const berth_copy_range* copies, size_t count,
                                                berth_stream target_stream,
                                                berth_stream source_stream,
                                                const berth_transfer_options* options,
                                                berth_transfer** transfer) {
  return start_transfer(runtime, options, transfer, [&](Runtime& owner, TransferOptions chosen) {
    return owner.copier().start_batch(
        to_ranges(copies, count), to_copy_streams(target_stream, source_stream), std::move(chosen));
  });
}

berth_status berth_transfer_start_from_file(berth_runtime* runtime, void* target,
                                            berth_file* source, uint64_t offset, size_t bytes,
                                            berth_stream stream,
                                            const berth_transfer_options* options,
                                            berth_transfer** transfer) {
  return start_transfer(runtime, options, transfer, [&](Runtime& owner, TransferOptions chosen) {
    const FileRange range{require(source, "source").file, offset, bytes};
    return owner.copier().start(target, range, to_stream(stream), std::move(chosen));
  });
}

berth_status berth_transfer_start_to_file(berth_runtime* runtime, berth_file* target,
                                          uint64_t offset, const void* source, size_t bytes,
                                          berth_stream stream,
                                          const berth_transfer_options* options,
                                          berth_transfer** transfer) {
  return start_transfer(runtime, options, transfer, [&](Runtime& owner, TransferOptions chosen) {
    const FileRange range{require(target, "target").file, offset, bytes};
    return owner.copier().start(range, source, to_stream(stream), std::move(chosen));
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

berth_status berth_transfer_check(berth_transfer* transfer) {
  return guarded([&] {
    const std::exception_ptr failure = require(transfer, "transfer").transfer.failure();
    if (failure != nullptr) std::rethrow_exception(failure);
  });
}

berth_status berth_transfer_get_bytes(berth_transfer* transfer, size_t* bytes) {
  return guarded([&] {
    const Transfer& asked = require(transfer, "transfer").transfer;
    require(bytes, "bytes") = asked.bytes();
  });
}

berth_status berth_transfer_wait(berth_transfer* transfer) {
  return guarded([&] { require(transfer, "transfer").transfer.wait(); });
}

berth_status berth_transfer_finish(berth_transfer* transfer) {
  return guarded([&] {
    const std::unique_ptr<berth_transfer> finished(&require(transfer, "transfer"));
    finished->transfer.wait();
  });
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
