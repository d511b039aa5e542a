// SPDX-License-Identifier: Apache-2.0
// The streams that order or use memory, each under an OwnerId.
//
// A stream handle is not an identity: the driver may give a destroyed stream's handle to a later
// stream, whose work is not ordered behind the old stream's. So a stream that ends is retired: its
// id stays with its blocks, an event represents its last work, and the handle gets a new id if it
// is used again.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "berth/stream.hpp"

#include "heap/block.hpp"
#include "memory/order/free_marks.hpp"
#include "memory/order/recorded_event.hpp"

namespace berth {

/// A stream's handle in one form: null for the legacy default stream.
CUstream_st* handle_of(StreamRef stream);

/// Guarded by the lock of the allocator that it belongs to.
class StreamTable {
 public:
  struct Entry {
    StreamRef stream;
    std::uint64_t number = 0;  ///< DeviceContext::stream_number(); 0: a foreign stream
    bool retired = false;
    SharedEvent last_work{};  ///< of a retired stream; null once it has passed
    bool unordered = false;   ///< ended in a capture: its last work is in a graph and may still run
    bool destroyed = false;   ///< by the program, without notice: its last work may still run
    bool has_failed = false;  ///< a query or a wait failed, and that was reported
    /// Events recorded on it up to this one are known to have passed.
    std::uint64_t completed = 0;
    FreeMarks marks{};  ///< of a foreign stream
    /// Calls in progress that pass its handle to the driver.
    std::uint32_t handle_uses = 0;

    /// Whether the driver may be queried with its handle, because berth is notified before the
    /// stream ends.
    [[nodiscard]] bool is_owned() const;
    /// Whether the end of all its work can be queried, or will never be known.
    [[nodiscard]] bool is_drain_observable() const { return retired ? !destroyed : is_owned(); }
  };

  /// The id of a stream, created if it has none. CU_STREAM_LEGACY and 0 are the same stream.
  /// Errors  std::bad_alloc: nothing is changed.
  OwnerId id_of(StreamRef stream);
  /// The id of a stream that is not retired; nullopt if it has none.
  [[nodiscard]] std::optional<OwnerId> find(StreamRef stream) const;
  [[nodiscard]] const Entry& entry(OwnerId id) const { return entries_.at(id); }
  [[nodiscard]] FreeMarks& marks(OwnerId id) { return entries_.at(id).marks; }
  /// Retired ones included.
  [[nodiscard]] std::size_t count() const { return entries_.size(); }
  /// Whether the table has the stream.
  [[nodiscard]] bool contains(OwnerId id) const { return entries_.count(id) == 1; }
  /// Whether the stream has ended and all its work is known to be done.
  [[nodiscard]] bool is_drained(OwnerId id) const;
  /// Whether an event recorded on the stream is known to have passed.
  [[nodiscard]] bool has_completed(OwnerId id, const RecordedEvent& recorded) const;
  /// An event that was recorded on the stream has passed, and with it all earlier ones.
  void set_completed(OwnerId id, const RecordedEvent& recorded);

  /// A call begins, or ends, that passes the handle to the driver.
  void begin_handle_use(OwnerId id) { ++entries_.at(id).handle_uses; }
  /// Whether that was the last one of the stream.
  bool end_handle_use(OwnerId id) noexcept;
  /// Whether there is one of the stream, retired or not.
  [[nodiscard]] bool is_handle_used(StreamRef stream) const;

  /// The handle may be destroyed once no call names it; `last_work` marks its last work.
  void retire(OwnerId id, SharedEvent last_work) noexcept;
  /// The same if no event can mark its last work.
  void retire_unordered(OwnerId id) noexcept;
  /// The stream was destroyed without notice, and its handle may belong to another stream.
  void mark_destroyed(OwnerId id) noexcept;
  /// A query or a wait failed. Whether that is the first one.
  bool note_failure(OwnerId id) noexcept { return !std::exchange(require(id).has_failed, true); }
  /// The last work of a retired stream has passed, or all work of the device at the time the stream
  /// was destroyed.
  void mark_drained(OwnerId id) noexcept;
  [[nodiscard]] std::vector<OwnerId> all() const;
  /// Retired streams whose last work may still run.
  [[nodiscard]] std::vector<OwnerId> draining() const;
  /// Drops retired streams that are drained and not in `named`.
  void forget_drained_except(const std::set<OwnerId>& named);

 private:
  using Key = std::pair<const DeviceContext*, CUstream_st*>;
  static Key key_of(StreamRef stream);
  /// The entry of a stream of the table.
  Entry& require(OwnerId id) noexcept;

  std::map<Key, OwnerId> ids_;
  std::map<OwnerId, Entry> entries_;
  OwnerId last_id_ = kUnowned;
};

}  // namespace berth
