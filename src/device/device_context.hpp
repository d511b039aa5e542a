// SPDX-License-Identifier: Apache-2.0
// berth's handle on one visible CUDA device: its driver, its ordinals, its primary context, the
// devices with access to its memory, and the observers of its streams. One for each device and
// Runtime, at a stable address.
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>
#include <string>

#include "berth/device.hpp"

#include "device/call_list.hpp"
#include "device/handle_set.hpp"
#include "device/host_progress.hpp"
#include "device/owned_streams.hpp"
#include "device/peer_access.hpp"
#include "device/seen_captures.hpp"
#include "device/stream_observer.hpp"
#include "driver/driver.hpp"
#include "driver/once_value.hpp"

namespace berth {

/// Threads  Safe from any thread.
class DeviceContext {
 public:
  DeviceContext(const Driver& driver, Device device, CUdevice native)
      : driver_(driver), device_(device), native_(native) {}
  ~DeviceContext();
  DeviceContext(const DeviceContext&) = delete;
  DeviceContext& operator=(const DeviceContext&) = delete;

  [[nodiscard]] const Driver& driver() const noexcept { return driver_; }
  /// The logical device, `cuda:N`.
  [[nodiscard]] Device device() const noexcept { return device_; }
  /// "cuda:N", for an error that also names `expected`; with "of another Runtime" if needed.
  [[nodiscard]] std::string name_beside(const DeviceContext& expected) const;
  /// The driver's own handle, from cuDeviceGet.
  [[nodiscard]] CUdevice native() const noexcept { return native_; }
  [[nodiscard]] int attribute(CUdevice_attribute attribute) const;

  /// The primary context, retained by the first call and released with this object.
  CUcontext primary() {
    return primary_.get(driver_, [this] {
      CUcontext retained = nullptr;
      driver_.primary_ctx_retain(&retained, native_);
      return retained;
    });
  }
  /// The device's access to host memory, queried once; the defaults if the driver does not report
  /// it.
  struct HostReach {
    /// Reads and writes pageable memory through the host's page tables, at the speed of pinned
    /// memory.
    bool has_pageable = false;
    bool shares_managed = false;  ///< the host may touch managed memory while the device works
    /// Its streams can wait for words of pinned memory, and write them. True if the driver does not
    /// report it, which may still reject an operation.
    bool has_memory_operations = true;
  };
  const HostReach& host_reach();

  /// Graph objects that own a graph of the device.
  [[nodiscard]] std::atomic<std::size_t>& graphs_live() noexcept { return graphs_live_; }

  /// Whether primary() has been called.
  [[nodiscard]] bool is_used() const noexcept { return primary_.find() != nullptr; }

  /// Events whose latest mark is in a capture, which no driver call reports without breaking it.
  [[nodiscard]] HandleSet<CUevent>& captured_events() noexcept { return captured_events_; }
  /// Handles that pools own, on lease or not: no other code may destroy them.
  [[nodiscard]] HandleSet<CUstream>& pooled_streams() noexcept { return pooled_streams_; }
  [[nodiscard]] HandleSet<CUevent>& pooled_events() noexcept { return pooled_events_; }
  [[nodiscard]] SeenCaptures& seen_captures() noexcept { return seen_captures_; }
  /// Access of other devices to this one's memory.
  [[nodiscard]] PeerAccess& peer_access() noexcept { return peer_access_; }

  /// An observer is removed before it is destroyed. Contracts: CallList.
  /// No effect in a forked child.
  void add_observer(StreamObserver& observer);
  void remove_observer(StreamObserver& observer) noexcept;
  /// Notifies every observer.
  void retire_stream(CUstream stream) noexcept;

  /// The host work that streams of the device wait for; src/stream/wait.hpp does it before a wait.
  [[nodiscard]] CallList<HostProgress>& host_progress() noexcept { return host_progress_; }

  /// Contracts: OwnedStreams.
  void own_stream(CUstream stream) { owned_streams_.add(stream); }
  void disown_stream(CUstream stream) noexcept { owned_streams_.remove(stream); }
  /// 0 for a stream that berth does not own; 1 for the legacy default stream; for others a number
  /// that is never reused, from the construction of the Stream until observers have been notified
  /// of its end, or until it is released.
  [[nodiscard]] std::uint64_t stream_number(CUstream stream) const noexcept {
    return owned_streams_.number_of(stream);
  }

 private:
  void report_live_objects() const noexcept;

  const Driver& driver_;
  const Device device_;
  const CUdevice native_;
  OnceValue<CUcontext> primary_;
  OnceValue<HostReach> host_reach_;
  HandleSet<CUevent> captured_events_;
  HandleSet<CUstream> pooled_streams_;
  HandleSet<CUevent> pooled_events_;
  SeenCaptures seen_captures_;
  PeerAccess peer_access_{*this};
  CallList<StreamObserver> observers_;
  CallList<HostProgress> host_progress_;
  OwnedStreams owned_streams_;
  std::atomic<std::size_t> graphs_live_ = 0;
};

/// Makes a device's primary context current on this thread for a scope, unless it is current. Used
/// around every driver call except those on devices and contexts, because the driver refuses most
/// calls on a thread without a current context.
class ContextScope {
 public:
  explicit ContextScope(DeviceContext& context);
  /// For destructors: a failure goes to the report sink.
  ContextScope(DeviceContext& context, std::nothrow_t) noexcept;
  ~ContextScope();
  ContextScope(const ContextScope&) = delete;
  ContextScope& operator=(const ContextScope&) = delete;

 private:
  void enter(DeviceContext& context);

  const Driver& driver_;
  DeviceContext* known_before_ = nullptr;
  CUcontext before_ = nullptr;  ///< the previous context, if pushed_
  bool pushed_ = false;
};

}  // namespace berth
