// SPDX-License-Identifier: Apache-2.0
// Kernels of the C library on simulated devices. <berth/sim.hpp> is C++.
#include "simulator.h"

#include <berth/sim.hpp>
#include <cstdio>
#include <memory>
#include <string>

namespace {

std::unique_ptr<berth::sim::Simulator> simulator;

void launch(kernel* element, const kernel_arguments* arguments, const size_t bytes[3], long count,
            CUstream_st* stream) {
  using berth::sim::MemoryUse;
  const auto compute = [given = *arguments, element, count](berth::sim::KernelMemory ranges) {
    kernel_arguments host = given;
    host.in[0] = reinterpret_cast<const float*>(ranges[0].data());
    host.in[1] = reinterpret_cast<const float*>(ranges[1].data());
    host.out = reinterpret_cast<float*>(ranges[2].data());
    for (long i = 0; i < count; ++i) element(i, &host);
  };
  simulator->launch(stream, {.duration_ns = 5'000,
                             .uses = {MemoryUse::read(arguments->in[0], bytes[0]),
                                      MemoryUse::read(arguments->in[1], bytes[1]),
                                      MemoryUse::write(arguments->out, bytes[2])},
                             .compute = compute});
}

void host_uses(const void* data, size_t bytes, int writes) {
  if (writes != 0)
    simulator->host_writes(data, bytes);
  else
    simulator->host_reads(data, bytes);
}

}  // namespace

kernel_runner simulator_begin(const char* machine) {
  simulator = std::make_unique<berth::sim::Simulator>(machine);
  return {launch, host_uses};
}

int simulator_end(void) {
  const auto findings = simulator->take_findings();
  for (const std::string& finding : findings) std::printf("found: %s\n", finding.c_str());
  std::fflush(stdout);
  simulator.reset();
  return int(findings.size());
}
