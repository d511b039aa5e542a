// SPDX-License-Identifier: Apache-2.0
// The stream of a copy, and the actions on its completion.
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
  /// If false, the host work of the copy is complete when the call returns.
  bool returns_transfer = false;
  TransferOptions options{};
  bool is_awaited = false;  ///< the call returns when the target contains the bytes
  bool is_part = false;     ///< of a whole copy, which calls on_done and has keep_alive
  bool is_checked = false;  ///< its pageable memory is known to be readable and writable
  /// Joined with `stream` before the copy and after it. The two may be exchanged.
  std::optional<StreamRef> other{};

  [[nodiscard]] static CopyRequest of_transfer(StreamRef stream, TransferOptions options) {
    return {.stream = stream, .returns_transfer = true, .options = std::move(options)};
  }
  [[nodiscard]] static CopyRequest of_transfer(const CopyStreams& streams,
                                               TransferOptions options) {
    CopyRequest request = of_transfer(streams.target_stream, std::move(options));
    request.other = other_of(streams);
    return request;
  }
  /// `options` without on_done.
  [[nodiscard]] static CopyRequest of_part(StreamRef stream, TransferOptions options) {
    CopyRequest request = of_transfer(stream, std::move(options));
    request.is_part = true;
    return request;
  }
  /// The same stream twice is that stream alone.
  [[nodiscard]] static std::optional<StreamRef> other_of(const CopyStreams& streams) {
    if (streams.target_stream == streams.source_stream) return std::nullopt;
    return streams.source_stream;
  }
  [[nodiscard]] bool has_end_action() const {
    return !is_part && (options.on_done != nullptr || options.keep_alive != nullptr);
  }
  /// The argument of refuse_captured(); has_end_action() is true.
  [[nodiscard]] const char* end_action_name() const {
    if (options.on_done == nullptr) return "given a copy with TransferOptions::keep_alive";
    return options.keep_alive == nullptr
               ? "given a copy with TransferOptions::on_done"
               : "given a copy with TransferOptions::on_done and TransferOptions::keep_alive";
  }
  /// The request for one of several copies that complete together, without on_done. With
  /// `needs_host`, threads may access the memory after the stream has completed the part, so the
  /// part keeps the memory alive.
  [[nodiscard]] CopyRequest part(bool needs_host) const {
    return of_part(stream, {.keep_alive = needs_host ? options.keep_alive : nullptr,
                            .priority = options.priority});
  }
  /// Lower numbers go first.
  [[nodiscard]] int priority() const {
    if (options.priority) return *options.priority;
    int priority = 0;  // if the driver cannot report priorities, all streams are equal
    stream.context().driver().try_stream_get_priority(stream.native(), &priority);
    return priority;
  }
};

}  // namespace berth
