// SPDX-License-Identifier: Apache-2.0
// The streams that memory is ordered on or used by, each under an OwnerId.
//
// A stream handle is not an identity: the driver gives a destroyed stream's handle to a later one,
// whose work is not ordered behind the old one's. So a stream that goes away is retired: its id
// stays with its blocks, an event stands for its last work, and the handle gets a new id when it
// comes back.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "berth/stream.hpp"

#include "memory/heap/block.hpp"
#include "memory/order/recorded_event.hpp"

namespace berth {

/// A stream's handle by one name: that of the legacy default stream is null.
CUstream_st* handle_of(StreamRef stream);

/// Guarded by the lock of the allocator that it belongs to.
class StreamTable {
 public:
  struct Entry {
    StreamRef stream;
    bool retired = false;
    SharedEvent last_work;  ///< of a retired stream; null once it has passed
    bool lost = false;      ///< went away when no event could mark its last work, which may yet run
    std::uint64_t passed = 0;  ///< of what was recorded on it, that up to here is known to be done
  };

  /// The id of a stream, new where it has none. CU_STREAM_LEGACY and 0 are the same stream.
  OwnerId id_of(StreamRef stream);
  /// The id of a stream that is not retired; nullopt where it has none.
  [[nodiscard]] std::optional<OwnerId> find(StreamRef stream) const;
  [[nodiscard]] const Entry& entry(OwnerId id) const { return entries_.at(id); }
  /// Whether it is not forgotten.
  [[nodiscard]] bool knows(OwnerId id) const { return entries_.count(id) == 1; }
  /// Whether all work of the stream is known to be done for ever.
  [[nodiscard]] bool is_over(OwnerId id) const;
  /// Whether what was recorded on the stream is known to be done.
  [[nodiscard]] bool has_passed(OwnerId id, const RecordedEvent& recorded) const;
  /// An event that was recorded on the stream has passed, and with it all that were before.
  void set_passed(OwnerId id, const RecordedEvent& recorded);

  /// The handle may be destroyed from now on; `last_work` marks its last work.
  void retire(OwnerId id, SharedEvent last_work);
  /// The same where nothing can mark it.
  void lose(OwnerId id);
  /// The last work of a retired stream has passed.
  void set_over(OwnerId id);
  [[nodiscard]] std::vector<OwnerId> all() const;
  /// Retired streams whose last work may still run.
  [[nodiscard]] std::vector<OwnerId> ending() const;
  /// Drops retired streams that are over and not in `named`.
  void forget_all_but(const std::set<OwnerId>& named);

 private:
  using Key = std::pair<const DeviceContext*, CUstream_st*>;
  static Key key_of(StreamRef stream);

  std::map<Key, OwnerId> ids_;
  std::map<OwnerId, Entry> entries_;
  OwnerId last_id_ = kUnowned;
};

}  // namespace berth
