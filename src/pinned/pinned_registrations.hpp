// SPDX-License-Identifier: Apache-2.0
// Registered ranges of the user's own memory, and the streams that use them.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>

#include "berth/device_registry.hpp"
#include "berth/stream.hpp"

#include "base/fork.hpp"
#include "device/device_context.hpp"
#include "memory/order/device_event_pools.hpp"
#include "memory/order/stream_uses.hpp"

namespace berth {

/// Contracts: PinnedAllocator.
/// Threads  Any. No driver call is made under the lock.
class PinnedRegistrations {
 public:
  struct Range {
    void* data;
    std::size_t bytes;
  };

  /// Both outlive this.
  PinnedRegistrations(const DeviceRegistry& registry, const DeviceEventPools& events);
  /// Ends and reports the remaining registrations.
  ~PinnedRegistrations();
  PinnedRegistrations(const PinnedRegistrations&) = delete;
  PinnedRegistrations& operator=(const PinnedRegistrations&) = delete;

  void add(void* data, std::size_t bytes) BERTH_EXCLUDES(uses_.mutex);
  void remove(void* data) BERTH_EXCLUDES(uses_.mutex);

  /// The registration around `data`, or nullopt. None in a forked child.
  [[nodiscard]] std::optional<Range> find(const void* data) const BERTH_EXCLUDES(uses_.mutex);
  /// False if `data` is in no registration.
  bool record_stream(const void* data, StreamRef stream) BERTH_EXCLUDES(uses_.mutex);
  bool record_use(const void* data, StreamRef stream) BERTH_EXCLUDES(uses_.mutex);
  void retire_stream(StreamRef stream) noexcept BERTH_EXCLUDES(uses_.mutex) {
    uses_.stream_retiring(stream.context(), stream.native());
  }

  [[nodiscard]] std::size_t bytes() const { return bytes_; }

 private:
  enum class State : std::uint8_t { beginning, live, ending };
  struct Entry {
    std::size_t bytes;
    DeviceContext* context;  ///< the device that pinned it, and unpins it
    StreamUses::Memory uses;
    State state = State::beginning;
  };
  using Entries = std::map<std::uintptr_t, Entry>;

  /// Adds a registration that is beginning.
  void claim(std::uintptr_t start, std::size_t bytes, DeviceContext& context)
      BERTH_EXCLUDES(uses_.mutex);
  void drop(std::uintptr_t start) BERTH_EXCLUDES(uses_.mutex);
  /// The live registration around `data`, or the end.
  [[nodiscard]] Entries::iterator around(const void* data) BERTH_REQUIRES(uses_.mutex);
  bool add_use(const void* data, StreamRef stream, RecordedEvent mark) BERTH_EXCLUDES(uses_.mutex);
  void unpin(DeviceContext& context, void* data) const;

  const ForkOrigin origin_;
  const DeviceRegistry& registry_;
  const Driver& driver_;
  std::atomic<std::size_t> bytes_ = 0;
  StreamUses uses_;
  Entries entries_ BERTH_GUARDED_BY(uses_.mutex);
};

}  // namespace berth
