// SPDX-License-Identifier: Apache-2.0
// Segments of page-locked host memory that every device can use. Pages are obtained from the
// system, touched by several threads and registered (cuMemHostRegister), so that the driver holds
// its lock only for the pinning. If that is not possible, the driver allocates (cuMemHostAlloc).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>

#include "berth/device_registry.hpp"

#include "base/mutex.hpp"
#include "device/device_context.hpp"
#include "memory/source/whole_segments.hpp"
#include "pinned/host_pages.hpp"

namespace berth {

/// A segment is one registration, so that no copy spans two registrations. The driver requires a
/// current context: that of the calling thread's device, so that no context is created on another
/// device.
/// Threads  obtain() and give_back() of different ranges: any at once.
class PinnedSegments final : public WholeSegments {
 public:
  struct Options {
    std::size_t segment_bytes;
    /// Number of threads that touch pages before they are registered; 0: the driver allocates.
    unsigned prefault_threads = 0;
    /// The driver allocates, without the processor's caches for reading.
    bool write_combined = false;
    /// The node of registered pages; nullopt: any node.
    std::optional<int> node = std::nullopt;
    /// Maps pages; replaced by tests.
    void* (*map)(std::size_t) noexcept = map_host_pages;
  };
  /// From this size on the driver allocates: registration fails on current drivers, and breaks some
  /// later call. Source: vllm-project/vllm, issue 51081.
  static constexpr std::size_t kRegistrationBytesMax = std::size_t{512} << 30;

  PinnedSegments(const DeviceRegistry& registry, const Options& options);

  /// Least recently used segments first.
  std::vector<Range> plan_return(BlockHeap& heap, std::size_t bytes) override;

  /// Segments obtained by registering, and those that the driver allocated.
  [[nodiscard]] std::uint64_t registered() const { return registered_; }
  [[nodiscard]] std::uint64_t allocated() const { return allocated_; }

 private:
  struct Segment {
    std::size_t bytes;
    bool is_registered;      ///< otherwise the driver allocated it
    DeviceContext* context;  ///< the device that pinned it, and unpins it
  };

  bool create(Growth& growth) override;
  DriverRefusal destroy(WholeSegments::Segment& segment) noexcept override;
  /// Whether the pages of a segment are registered, so that devices access them at the same
  /// address.
  bool registers(const Driver& driver, std::size_t bytes);
  /// Null if that is not possible; the driver may still allocate.
  void* map_and_register(const Driver& driver, std::size_t bytes);
  void bind(const Driver& driver, void* pages, std::size_t bytes);

  const DeviceRegistry& registry_;
  const Options options_;
  enum class Registering : std::uint8_t { unknown, works, does_not };
  std::atomic<Registering> registering_ = Registering::unknown;
  std::atomic<bool> refusal_reported_ = false;
  std::atomic<bool> binding_reported_ = false;
  std::atomic<std::uint64_t> registered_ = 0;
  std::atomic<std::uint64_t> allocated_ = 0;
  Mutex mutex_;
  std::map<std::uintptr_t, Segment> segments_ BERTH_GUARDED_BY(mutex_);
};

}  // namespace berth
