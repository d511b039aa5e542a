// SPDX-License-Identifier: Apache-2.0
// Registered ranges of the user's own memory, and the streams that use them.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "berth/device_registry.hpp"
#include "berth/stream.hpp"

#include "base/condition_variable.hpp"
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
  /// Ends and reports the remaining registrations.
  ~PinnedRegistrations() override;

  void add(void* data, std::size_t bytes) BERTH_EXCLUDES(mutex_);
  void remove(void* data) BERTH_EXCLUDES(mutex_);

  /// The registration around `data`, or nullopt. None in a forked child.
  [[nodiscard]] std::optional<Range> find(const void* data) const BERTH_EXCLUDES(mutex_);
  /// False if `data` is in no registration.
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
    End end;                  ///< null: the work on the stream when the registration ends
    bool is_retired = false;  ///< the handle may belong to another stream now
    /// The thread that ends the registration uses the handle; the stream does not end meanwhile.
    bool is_handle_used = false;
  };
  enum class State : std::uint8_t { beginning, live, ending };
  struct Entry {
    std::size_t bytes;
    DeviceContext* context;  ///< the device that pinned it, and unpins it
    State state = State::beginning;
    std::vector<Use> uses{};
  };
  using Entries = std::map<std::uintptr_t, Entry>;

  /// Adds a registration that is beginning.
  void claim(std::uintptr_t start, std::size_t bytes, DeviceContext& context)
      BERTH_EXCLUDES(mutex_);
  void drop(std::uintptr_t start) BERTH_EXCLUDES(mutex_);
  /// The live registration around `data`, or the end.
  [[nodiscard]] Entries::iterator around(const void* data) BERTH_REQUIRES(mutex_);
  void add_use(Entry& entry, Use use) BERTH_REQUIRES(mutex_);
  void unpin(DeviceContext& context, void* data) const;
  /// Waits for the uses of an ending registration. Without a lock: streams may end meanwhile.
  void wait_for_uses(Entry& entry) BERTH_EXCLUDES(mutex_);
  /// Gives the last of the uses an end, or drops the use. False if none is left.
  bool mark_last_use(Entry& entry) BERTH_EXCLUDES(mutex_);
  /// An event behind the stream's current work; null if there is nothing to wait for, or nothing
  /// that could be waited for.
  End end_of(StreamRef stream) const noexcept;
  End record(StreamRef stream) const;
  [[nodiscard]] const Driver& driver() const { return events_.driver(); }

  const ForkOrigin origin_;
  const DeviceRegistry& registry_;
  const DeviceEventPools& events_;
  std::atomic<std::size_t> bytes_ = 0;
  Mutex record_mutex_;  ///< before mutex_
  mutable Mutex mutex_;
  Entries entries_ BERTH_GUARDED_BY(mutex_);
  ConditionVariable handle_use_ended_;
};

}  // namespace berth
