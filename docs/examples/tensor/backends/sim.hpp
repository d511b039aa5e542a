// SPDX-License-Identifier: Apache-2.0
// Kernels on simulated devices: functions of the host.
#pragma once

#include <algorithm>
#include <berth/error.hpp>
#include <berth/sim.hpp>
#include <memory>
#include <vector>

#include "../core/kernels.hpp"

namespace mini {

class SimulatedKernels final : public Kernels {
 public:
  explicit SimulatedKernels(berth::sim::Simulator& simulator) : simulator_(simulator) {}

  void launch(const Kernel& kernel, const Args& args, const std::array<std::size_t, 3>& bytes,
              long count, berth::StreamRef stream) override {
    using berth::sim::MemoryUse;
    std::vector<MemoryUse> uses;
    for (std::size_t index = 0; index < 2; ++index)
      if (args.in[index] != nullptr) uses.push_back(MemoryUse::read(args.in[index], bytes[index]));
    uses.push_back(MemoryUse::write(args.out, bytes[2]));
    // The simulator gives the function the bytes behind device addresses, in the order of `uses`.
    const auto compute = [=](berth::sim::KernelMemory ranges) {
      Args host = args;
      std::size_t next = 0;
      for (const float*& in : host.in)
        if (in != nullptr) in = reinterpret_cast<const float*>(ranges[next++].data());
      host.out = reinterpret_cast<float*>(ranges[next].data());
      for (long i = 0; i < count; ++i) kernel.element(i, host);
    };
    simulator_.spend(kLaunchNs);
    const long work = count * std::max(1L, args.size[0]);
    if (!simulator_.launch(stream.native(),
                           {.duration_ns = kKernelNs + std::uint64_t(work) / kWorkPerNs,
                            .uses = uses,
                            .compute = compute}))
      throw berth::InvalidArgument("a kernel cannot be launched on this stream");
  }

  void host_uses(const void* data, std::size_t bytes, bool writes) override {
    if (writes)
      simulator_.host_writes(data, bytes);
    else
      simulator_.host_reads(data, bytes);
  }

  std::uint64_t now_ns() override { return simulator_.now_ns(); }

 private:
  // What a launch takes on the host, and what a kernel takes on the device.
  static constexpr std::uint64_t kLaunchNs = 2'500;
  static constexpr std::uint64_t kKernelNs = 2'000;
  static constexpr std::uint64_t kWorkPerNs = 10;

  berth::sim::Simulator& simulator_;
};

}  // namespace mini
