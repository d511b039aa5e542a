// SPDX-License-Identifier: Apache-2.0
// PyTorch's streams as a peer: its pool, its guards, its current stream.
#pragma once

#include "peers/loaded_peer.hpp"
#include "support/benchmarks.hpp"

namespace berth::bench {

/// Repeats one of the peer's calls while a stream of its pool is current.
class TorchStreamCall {
 public:
  using Call = void (*PeerStreamFunctions::*)();

  TorchStreamCall(Session& session, Call call)
      : binding_(session, Torch::module().lead_cudart()), call_(functions().*call) {
    functions().enter();
    step();
  }
  void step() { call_(); }

 private:
  static const PeerStreamFunctions& functions() { return *Torch::module().functions().streams; }

  CudartBinding binding_;
  void (*const call_)();
};

/// Registers it as the peer of a figure, if PyTorch's library is available.
inline void add_torch_streams(Session& session, const char* figure, TorchStreamCall::Call call) {
  if (!Torch::module().usable()) return leave_out(Torch::kName, Torch::module().problem().c_str());
  add(session, figure, Torch::kName, "", [&session, call](benchmark::State& state) {
    TorchStreamCall workload(session, call);
    time_steps(state, workload);
  });
}

}  // namespace berth::bench
