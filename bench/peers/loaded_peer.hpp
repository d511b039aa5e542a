// SPDX-License-Identifier: Apache-2.0
// Peers that are libraries: RMM's pool and PyTorch's allocator. They are loaded from the folder
// that BERTH_BENCH_PEERS names, which ./run bench --peers fills.
#pragma once

#include <cstddef>
#include <string>

#include "peers/cudart/binding.hpp"
#include "peers/modules/peer_functions.hpp"
#include "support/session.hpp"

namespace berth::bench {

/// A peer's library, loaded once and never unloaded.
class PeerModule {
 public:
  explicit PeerModule(const char* name);

  [[nodiscard]] bool usable() const { return problem_.empty(); }
  /// The reason why it is left out, in one line; empty if usable().
  [[nodiscard]] const std::string& problem() const { return problem_; }
  [[nodiscard]] const PeerFunctions& functions() const { return *functions_; }
  /// Directs the runtime API that the peers' libraries share.
  [[nodiscard]] LeadCudart& lead_cudart() const { return *lead_cudart_; }

 private:
  const PeerFunctions* functions_ = nullptr;
  LeadCudart* lead_cudart_ = nullptr;
  std::string problem_;
};

class LoadedPeer {
 public:
  static constexpr bool kCallsDriver = true;
  static constexpr bool kSplits = true;

  LoadedPeer(Session& session, const PeerModule& module);
  ~LoadedPeer() { peer_.destroy(cache_); }
  LoadedPeer(const LoadedPeer&) = delete;
  LoadedPeer& operator=(const LoadedPeer&) = delete;

  void* allocate(std::size_t bytes, StreamRef stream) {
    return peer_.allocate(cache_, bytes, stream.native());
  }
  void deallocate(void* data, std::size_t bytes, StreamRef stream) {
    peer_.deallocate(cache_, data, bytes, stream.native());
  }

  void disable_cache() {}
  void deallocate_uncached(void* data, std::size_t bytes, StreamRef stream) {
    deallocate(data, bytes, stream);
    peer_.trim(cache_);
  }

 private:
  const PeerFunctions peer_;
  CudartBinding binding_;  // outlives the cache, which returns its memory at the end
  void* cache_;
};

class RmmPool : public LoadedPeer {
 public:
  static constexpr const char* kName = "rmm_pool";
  static constexpr bool kTrims = false;
  explicit RmmPool(Session& session) : LoadedPeer(session, module()) {}
  static const PeerModule& module();
};

class Torch : public LoadedPeer {
 public:
  static constexpr const char* kName = "torch";
  static constexpr bool kTrims = true;
  explicit Torch(Session& session) : LoadedPeer(session, module()) {}
  static const PeerModule& module();
};

}  // namespace berth::bench
