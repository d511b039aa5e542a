// SPDX-License-Identifier: Apache-2.0
// What a peer that is loaded exports: its functions in C's calling convention, so that its headers
// and berth's never meet in one translation unit. Each adds one call to the peer's own. Exceptions
// pass: what the peer throws is a std::exception.
#pragma once

#include <cstddef>

struct CUstream_st;

namespace berth::bench {

/// Of the calling thread, and the first device.
struct PeerStreamFunctions {
  /// Makes a stream of the peer's pool current.
  void (*enter)();
  /// Takes a stream of the pool, which is shared and never given back.
  void (*acquire)();
  /// Makes and destroys a guard for the stream, or device, that is current.
  void (*guard_stream)();
  void (*guard_device)();
  void (*ask_current)();
};

struct PeerFunctions {
  /// A cache that starts empty. The runtime API must lead somewhere until it is destroyed.
  void* (*create)();
  void (*destroy)(void* cache);
  /// Throws std::bad_alloc where the device has no room.
  void* (*allocate)(void* cache, std::size_t bytes, CUstream_st* stream);
  void (*deallocate)(void* cache, void* data, std::size_t bytes, CUstream_st* stream);
  /// Gives back what is cached; null where the peer never does.
  void (*trim)(void* cache);
  const PeerStreamFunctions* streams;  ///< null where the peer has none
};

}  // namespace berth::bench

extern "C" __attribute__((visibility("default"))) const berth::bench::PeerFunctions berth_peer;
