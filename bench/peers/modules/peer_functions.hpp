// SPDX-License-Identifier: Apache-2.0
// The exports of a loaded peer: functions with C linkage, so that its headers and berth's are never
// in one translation unit. Each adds one call to the peer's own. Exceptions of the peer, which are
// std::exceptions, pass through.
#pragma once

#include <cstddef>

struct CUstream_st;

namespace berth::bench {

/// For the calling thread and the first device.
struct PeerStreamFunctions {
  /// Makes a stream of the peer's pool current.
  void (*enter)();
  /// Takes a stream of the pool, which is shared and never returned.
  void (*acquire)();
  /// Creates and destroys a guard for the current stream or device.
  void (*guard_stream)();
  void (*guard_device)();
  void (*ask_current)();
};

struct PeerFunctions {
  /// A cache that starts empty. The runtime API must have a target until the cache is destroyed.
  void* (*create)();
  void (*destroy)(void* cache);
  /// Throws std::bad_alloc if the device has no memory left.
  void* (*allocate)(void* cache, std::size_t bytes, CUstream_st* stream);
  void (*deallocate)(void* cache, void* data, std::size_t bytes, CUstream_st* stream);
  /// Returns cached memory; null if the peer never does.
  void (*trim)(void* cache);
  const PeerStreamFunctions* streams;  ///< null if the peer has none
};

}  // namespace berth::bench

extern "C" __attribute__((visibility("default"))) const berth::bench::PeerFunctions berth_peer;
