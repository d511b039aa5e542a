// SPDX-License-Identifier: Apache-2.0
// Registered ranges of the user's own memory, and the streams that use them.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "berth/device_registry.hpp"
#include "berth/stream.hpp"

#include "base/fork.hpp"
#include "base/mutex.hpp"
#include "device/device_context.hpp"
#include "memory/order/device_event_pools.hpp"
#include "memory/order/recorded_event.hpp"

namespace berth {

/// Contracts: PinnedAllocator.
/// Threads  Any. No driver call is made under the lock.
class PinnedRegistrations final : public StreamObserver {
 public:
  struct Range {
    void* data;
    std::size_t bytes;
  };

  /// Both outlive this.
  PinnedRegistrations(const DeviceRegistry& registry, const DeviceEventPools& events);
  /// Ends those that are left, and reports that there are.
  ~PinnedRegistrations() override;

  void add(void* data, std::size_t bytes) BERTH_EXCLUDES(mutex_);
  void remove(void* data) BERTH_EXCLUDES(mutex_);

  /// The registration around `data`; nullopt where there is none. In a forked child there is none.
  [[nodiscard]] std::optional<Range> find(const void* data) const BERTH_EXCLUDES(mutex_);
  /// False where `data` is in none.
  bool record_stream(const void* data, StreamRef stream) BERTH_EXCLUDES(mutex_);
  bool record_use(const void* data, StreamRef stream) BERTH_EXCLUDES(mutex_);
  void retire_stream(StreamRef stream) noexcept BERTH_EXCLUDES(mutex_);
  void stream_retiring(DeviceContext& context, CUstream stream) noexcept override {
    retire_stream(StreamRef(context, stream));
  }

  [[nodiscard]] std::size_t bytes() const { return bytes_; }

 private:
  using End = SharedEvent;
  struct Use {
    StreamRef stream;
    End end;                  ///< null: all that the stream holds when the registration ends
    bool is_retired = false;  ///< the stream's handle may mean another one now
    /// The thread that ends the registration names the stream, which does not go away meanwhile.
    bool is_handle_used = false;
  };
  enum class State : std::uint8_t { beginning, live, ending };
  struct Entry {
    std::size_t bytes;
    DeviceContext* context;  ///< of whose device it was pinned; this one unpins it
    State state = State::beginning;
    std::vector<Use> uses{};
  };
  using Entries = std::map<std::uintptr_t, Entry>;

  /// Takes the range for one that is beginning.
  void claim(std::uintptr_t start, std::size_t bytes, DeviceContext& context)
      BERTH_EXCLUDES(mutex_);
  void drop(std::uintptr_t start) BERTH_EXCLUDES(mutex_);
  /// The live one around `data`; the end where there is none.
  [[nodiscard]] Entries::iterator around(const void* data) BERTH_REQUIRES(mutex_);
  void add_use(Entry& entry, Use use) BERTH_REQUIRES(mutex_);
  void unpin(DeviceContext& context, void* data) const;
  /// Of a registration that is ending. Under no lock while it waits: streams may go away meanwhile.
  void wait_for_uses(Entry& entry) BERTH_EXCLUDES(mutex_);
  /// Sees to it that the last of the uses has an end, or is not there. False where none is left.
  bool mark_last_use(Entry& entry) BERTH_EXCLUDES(mutex_);
  /// An event after what the stream holds now; null if that is over, or if the stream is captured.
  End end_of(StreamRef stream) const;
  End record(StreamRef stream) const;
  [[nodiscard]] const Driver& driver() const { return events_.driver(); }

  const ForkOrigin origin_;
  const DeviceRegistry& registry_;
  const DeviceEventPools& events_;
  std::atomic<std::size_t> bytes_ = 0;
  Mutex record_mutex_;  ///< before mutex_
  mutable Mutex mutex_;
  Entries entries_ BERTH_GUARDED_BY(mutex_);
  std::condition_variable_any handle_use_ended_;
};

}  // namespace berth
