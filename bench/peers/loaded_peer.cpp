// SPDX-License-Identifier: Apache-2.0
#include "peers/loaded_peer.hpp"

#include <cstdlib>
#include <dlfcn.h>
#include <filesystem>

namespace berth::bench {
namespace {

void* load(const std::string& path) {
  return dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
}

}  // namespace

PeerModule::PeerModule(const char* name) {
  const char* folder = std::getenv("BERTH_BENCH_PEERS");
  if (folder == nullptr) {
    problem_ = "not there; ./run bench --peers brings them";
    return;
  }
  const std::string path = std::string(folder) + "/libberth_peer_" + name + ".so";
  if (!std::filesystem::exists(path)) {
    problem_ = "not built: its wheel could not be had";
    return;
  }
  // First, and by its path: the loader then uses this one for all libraries that need a libcudart
  // of that name.
  void* const cudart = load(std::string(folder) + "/libcudart.so.13");
  void* const peer = cudart != nullptr ? load(path) : nullptr;
  if (peer == nullptr) {
    problem_ = dlerror();
    return;
  }
  lead_cudart_ = reinterpret_cast<LeadCudart*>(dlsym(cudart, "berth_lead_cudart"));
  functions_ = static_cast<const PeerFunctions*>(dlsym(peer, "berth_peer"));
  if (functions_ == nullptr || lead_cudart_ == nullptr) problem_ = path + " is of another version";
}

LoadedPeer::LoadedPeer(Session& session, const PeerModule& module)
    : peer_(module.functions()), binding_(session, module.lead_cudart()), cache_(peer_.create()) {}

const PeerModule& RmmPool::module() {
  static const PeerModule module(kName);
  return module;
}

const PeerModule& Torch::module() {
  static const PeerModule module(kName);
  return module;
}

}  // namespace berth::bench
