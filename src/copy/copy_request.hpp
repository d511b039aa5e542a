// SPDX-License-Identifier: Apache-2.0
// How a copy is requested: its stream, and what happens at its end.
#pragma once

#include <optional>
#include <utility>

#include "berth/copy_streams.hpp"
#include "berth/stream.hpp"
#include "berth/transfer.hpp"

#include "device/device_context.hpp"

namespace berth {

struct CopyRequest {
  StreamRef stream;
  /// Otherwise the host's share of the copy is done when the call returns.
  bool wants_transfer = false;
  TransferOptions options{};
  bool is_awaited = false;  ///< the call returns when the target has the bytes
  bool is_checked = false;  ///< its pageable memory has been found readable and writable
  /// Joined with `stream` before the copy and after it. The two may change places.
  std::optional<StreamRef> other{};

  [[nodiscard]] static CopyRequest of_transfer(StreamRef stream, TransferOptions options) {
    return {.stream = stream, .wants_transfer = true, .options = std::move(options)};
  }
  [[nodiscard]] static CopyRequest of_transfer(const CopyStreams& streams,
                                               TransferOptions options) {
    CopyRequest request = of_transfer(streams.target_stream, std::move(options));
    request.other = other_of(streams);
    return request;
  }
  /// The same stream twice is that stream alone.
  [[nodiscard]] static std::optional<StreamRef> other_of(const CopyStreams& streams) {
    if (streams.target_stream == streams.source_stream) return std::nullopt;
    return streams.source_stream;
  }
  [[nodiscard]] bool wants_end() const {
    return options.on_done != nullptr || options.keep_alive != nullptr;
  }
  /// wants_end() is true: what refuse_captured() says of it.
  [[nodiscard]] const char* name_of_end() const {
    if (options.on_done == nullptr) return "given a copy with TransferOptions::keep_alive";
    return options.keep_alive == nullptr
               ? "given a copy with TransferOptions::on_done"
               : "given a copy with TransferOptions::on_done and TransferOptions::keep_alive";
  }
  /// The request for one of several copies with a common end, without on_done. With `needs_host`,
  /// threads may use the memory after the stream has passed it, so the part keeps it alive.
  [[nodiscard]] CopyRequest part(bool needs_host) const {
    return of_transfer(stream, {.keep_alive = needs_host ? options.keep_alive : nullptr,
                                .priority = options.priority});
  }
  /// Lower numbers go first.
  [[nodiscard]] int priority() const {
    if (options.priority) return *options.priority;
    int priority = 0;  // where the driver cannot say, all streams are alike
    stream.context().driver().try_stream_get_priority(stream.native(), &priority);
    return priority;
  }
};

}  // namespace berth
