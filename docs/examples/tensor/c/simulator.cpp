// SPDX-License-Identifier: Apache-2.0
// Kernels of the C library on simulated devices. <berth/sim.hpp> is C++.
#include "simulator.h"

#include <berth/sim.hpp>
#include <cstdio>
#include <memory>
#include <string>

namespace {

std::unique_ptr<berth::sim::Simulator> simulator;

void launch(kernel* element, const tensor* a, const tensor* b, const tensor* out,
            CUstream_st* stream) {
  using berth::sim::MemoryUse;
  const auto compute = [element, a = *a, b = *b,
                        out = *out](berth::sim::KernelMemory ranges) mutable {
    a.data = ranges[0].data();
    b.data = ranges[1].data();
    out.data = ranges[2].data();
    for (long i = 0; i < out.rows * out.columns; ++i) element(i, &a, &b, &out);
  };
  simulator->launch(stream, {.duration_ns = 5'000,
                             .uses = {MemoryUse::read(a->data, tensor_bytes(a)),
                                      MemoryUse::read(b->data, tensor_bytes(b)),
                                      MemoryUse::write(out->data, tensor_bytes(out))},
                             .compute = compute});
}

void host_uses(const void* data, size_t bytes, bool writes) {
  if (writes)
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
