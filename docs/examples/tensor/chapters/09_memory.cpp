// SPDX-License-Identifier: Apache-2.0
#include "../core/ops.hpp"
#include "program.hpp"

using mini::Tensor;
using namespace berth::literals;

constexpr long kMiB = 1 << 18;  // floats in a MiB

void chapter(std::ostream& out, bool timed) {
  berth::DeviceAllocator& memory = mini::library().runtime.memory(berth::Device::cuda(0));
  const auto reserved = [&] {
    return berth::format_bytes(memory.counters().bytes_reserved.current) + " reserved\n";
  };

  // A limit leaves the rest of the device to others.
  berth::MemoryLimits limits;
  limits.bytes_reserved_max = 16_MiB;
  memory.set_limits(limits);
  Tensor weights = mini::zeros({8 * kMiB}, "cuda");
  if (timed) mini::show_error(out, [] { mini::zeros({10 * kMiB}, "cuda"); });

  // A library that can recompute something gives it up when memory is short.
  Tensor cache = mini::zeros({6 * kMiB}, "cuda");
  memory.set_on_pressure([&](std::size_t bytes_needed) {
    out << berth::format_bytes(bytes_needed) << " are missing: the cache goes\n";
    cache = Tensor();
    return true;
  });
  const Tensor more = mini::zeros({6 * kMiB}, "cuda");
  out << "on " << more.device().to_string() << ", " << reserved();
  memory.set_on_pressure(nullptr);

  // A pool gives up its memory for a while, and has the same content at the same addresses after.
  weights = Tensor();
  {
    berth::MemoryPool pool = memory.create_pool({.name = "weights"});
    {
      const auto scope = berth::PoolScope::on_this_thread(pool);
      weights = mini::full({6 * kMiB}, 3, "cuda");
    }
    const float* const data = weights.data();
    out << berth::format_bytes(pool.sleep(berth::SleepContent::keep)) << " for others\n";
    mini::show_error(out, [&] {
      const auto scope = berth::PoolScope::on_this_thread(pool);
      mini::zeros({1}, "cuda");
    });
    pool.wake();
    out << weights.values().back() << (weights.data() == data ? " at the same address" : " moved")
        << '\n';
  }
  // The pool is closed. Its memory goes when its last tensor does.
  out << "after the end of the pool: " << weights.values().front() << '\n';
}

int main(int argc, char** argv) {
  return mini::program(argc, argv, chapter, "devices=1,memory=1GiB");
}
