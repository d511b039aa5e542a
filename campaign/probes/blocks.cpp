// SPDX-License-Identifier: Apache-2.0
// campaign_blocks [THREADS]: threads allocate blocks from berth at random, until memory is short, write every
// word of them on the device, and look at every word before they free them, now and then on another stream.
// What page remap, reuse between streams and pending frees do wrong shows as a word that is not as it was
// written: two mappings of one granule among them.
#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "berth/bytes.hpp"
#include "berth/error.hpp"
#include "berth/runtime.hpp"

#include "probes/kernels.hpp"
#include "probes/machine.hpp"
#include "probes/rows.hpp"

namespace {

using namespace berth;
using namespace berth::campaign;

/// What all threads may reserve; they want a quarter more. Without kernels the host fills and checks, which takes long.
constexpr std::size_t kLimitOfKernels = 2_GiB;
constexpr std::size_t kLimitOfCopies = 128_MiB;

struct Tally {
  std::atomic<std::uint64_t> blocks = 0;
  std::atomic<std::uint64_t> bytes = 0;
  std::atomic<std::uint64_t> refusals = 0;
  std::atomic<std::uint64_t> mismatches = 0;
};

class Worker {
 public:
  Worker(const Machine& machine, Runtime& runtime, std::size_t bytes_max, unsigned seed,
         Tally& tally)
      : runtime_(runtime),
        memory_(runtime.memory(Device::cuda(0))),
        kernels_(machine),
        tally_(tally),
        random_(seed),
        bytes_max_(bytes_max),
        streams_{runtime.create_stream(Device::cuda(0)), runtime.create_stream(Device::cuda(0))} {}

  void run(const Time& time) {
    while (!time.is_over() && tally_.mismatches == 0) {
      if (!blocks_.empty() && (bytes_live_ > bytes_max_ || random_() % 2 == 0)) {
        check_and_free(random_() % blocks_.size());
      } else {
        allocate_and_fill();
      }
    }
    while (!blocks_.empty()) check_and_free(blocks_.size() - 1);
  }

 private:
  struct Filled {
    Allocation block;
    std::uint64_t seed;
    std::size_t stream;
  };

  void allocate_and_fill() {
    const std::size_t bytes = random_bytes();
    const std::size_t stream = random_() % streams_.size();
    Result<Allocation> block = memory_.try_allocate(bytes, streams_[stream]);
    if (!block) {
      ++tally_.refusals;
      if (!blocks_.empty()) check_and_free(random_() % blocks_.size());
      return;
    }
    const std::uint64_t seed = (std::uint64_t{random_()} << 32) | random_();
    kernels_.fill(streams_[stream].ref().native(), address_of(block.value()), bytes, seed);
    bytes_live_ += bytes;
    blocks_.push_back({std::move(block).value(), seed, stream});
  }

  void check_and_free(std::size_t index) {
    std::swap(blocks_[index], blocks_.back());
    Filled filled = std::move(blocks_.back());
    blocks_.pop_back();
    std::size_t stream = filled.stream;
    if (random_() % 4 == 0) {
      const std::size_t other = (stream + 1) % streams_.size();
      runtime_.join(streams_[other], {streams_[stream].ref()});
      filled.block.record_stream(streams_[other]);
      stream = other;
    }
    const std::size_t bytes = filled.block.bytes();
    tally_.mismatches += kernels_.mismatches(streams_[stream].ref().native(),
                                             address_of(filled.block), bytes, filled.seed);
    ++tally_.blocks;
    tally_.bytes += bytes;
    bytes_live_ -= bytes;
  }

  /// Any power of two as often as any other.
  std::size_t random_bytes() {
    const double most = std::log2(static_cast<double>(bytes_max_ / 4));
    const double exponent = std::uniform_real_distribution<>(9, most)(random_);
    return static_cast<std::size_t>(std::exp2(exponent)) / 8 * 8;
  }
  static CUdeviceptr address_of(const Allocation& block) {
    return reinterpret_cast<CUdeviceptr>(block.data());
  }

  Runtime& runtime_;
  DeviceAllocator& memory_;
  const Kernels kernels_;
  Tally& tally_;
  std::mt19937 random_;
  const std::size_t bytes_max_;
  std::array<Stream, 2> streams_;
  std::size_t bytes_live_ = 0;
  std::vector<Filled> blocks_;
};

void measure(const Machine& machine, unsigned threads) {
  const Time time;
  const bool has_kernels = Kernels(machine).are_real();
  RuntimeOptions options;
  const std::size_t limit = has_kernels ? kLimitOfKernels : kLimitOfCopies;
  options.device_allocator.limits.reserved_bytes_max = limit;
  Runtime runtime(options);
  Tally tally;
  std::atomic<bool> has_failed = false;
  {
    std::vector<std::jthread> workers;
    for (unsigned number = 0; number < threads; ++number) {
      workers.emplace_back([&, number] {
        try {
          machine.enter_thread();
          Worker(machine, runtime, limit / threads / 4 * 5, number, tally).run(time);
        } catch (const std::exception& error) {
          has_failed = true;
          add_row("blocks", fmt::format("thread {}", number),
                  {{"outcome", "failed"}, {"text", error.what()}});
        }
      });
    }
  }
  const MemoryCounters counters = runtime.memory(Device::cuda(0)).counters();
  add_row("blocks", fmt::format("{} threads, {}", threads, has_kernels ? "kernels" : "copies"),
          {{"blocks", tally.blocks.load()},
           {"bytes_checked", tally.bytes.load()},
           {"words_wrong", tally.mismatches.load()},
           {"granules_mapped_again", counters.page_remaps},
           {"refusals", tally.refusals.load()}});
  if (tally.mismatches > 0) throw std::runtime_error("words are not as they were written");
  if (has_failed) throw std::runtime_error("a thread has failed");
}

}  // namespace

int main(int argc, char** argv) {
  const unsigned threads =
      argc == 2 ? static_cast<unsigned>(std::strtoul(argv[1], nullptr, 10)) : 1;
  return run_on_machine(
      [threads](const Machine& machine) { measure(machine, std::max(threads, 1U)); });
}
