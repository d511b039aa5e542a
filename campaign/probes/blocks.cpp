// SPDX-License-Identifier: Apache-2.0
// campaign_blocks [THREADS]: threads allocate blocks from berth at random, until memory is short,
// write every word of them on the device, write random pieces of them again, and look at every word
// before they free them, now and then on another stream, and with work still pending. A mistake of
// page remap, of reuse between streams or of pending frees shows as a word that is not as it was
// written: so does a write through one mapping of a granule that another mapping does not see.
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
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

/// The limit of reserved memory for all threads, which request a quarter more. Without kernels the
/// host fills and checks, which is slow.
constexpr std::size_t kLimitOfKernels = 2_GiB;
constexpr std::size_t kLimitOfCopies = 128_MiB;
constexpr std::size_t kPieces = 6;  ///< of a block, at most, each written by itself
constexpr auto kPending = std::chrono::microseconds(50);  ///< of work behind which a block is freed

struct Tally {
  std::atomic<std::uint64_t> blocks = 0;
  std::atomic<std::uint64_t> bytes = 0;
  std::atomic<std::uint64_t> rewrites = 0;
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
      const unsigned choice = random_() % 4;
      if (!blocks_.empty() && (bytes_live_ > bytes_max_ || choice == 0)) {
        check_and_free(random_() % blocks_.size());
      } else if (!blocks_.empty() && choice == 1) {
        rewrite(blocks_[random_() % blocks_.size()]);
      } else {
        allocate_and_fill();
      }
    }
    while (!blocks_.empty()) check_and_free(blocks_.size() - 1);
  }

 private:
  struct Piece {
    std::size_t at;
    std::size_t bytes;
    std::uint64_t seed;
  };
  struct Filled {
    Allocation block;
    std::vector<Piece> pieces;
    std::size_t stream;  ///< that wrote it last
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
    Filled filled{std::move(block).value(), random_pieces(bytes), stream};
    for (Piece& piece : filled.pieces) write(filled, piece);
    bytes_live_ += bytes;
    blocks_.push_back(std::move(filled));
  }

  void rewrite(Filled& filled) {
    move_now_and_then(filled);
    write(filled, filled.pieces[random_() % filled.pieces.size()]);
    ++tally_.rewrites;
  }

  void check_and_free(std::size_t index) {
    std::swap(blocks_[index], blocks_.back());
    Filled filled = std::move(blocks_.back());
    blocks_.pop_back();
    move_now_and_then(filled);
    const CUstream stream = streams_[filled.stream].ref().native();
    for (const Piece& piece : filled.pieces) {
      tally_.mismatches +=
          kernels_.mismatches(stream, address_of(filled.block) + piece.at, piece.bytes, piece.seed);
    }
    const std::size_t bytes = filled.block.bytes();
    ++tally_.blocks;
    tally_.bytes += bytes;
    bytes_live_ -= bytes;
    if (random_() % 2 == 0) kernels_.spin(stream, kPending);
  }

  void write(const Filled& filled, Piece& piece) {
    piece.seed = (std::uint64_t{random_()} << 32) | random_();
    kernels_.fill(streams_[filled.stream].ref().native(), address_of(filled.block) + piece.at,
                  piece.bytes, piece.seed);
  }

  void move_now_and_then(Filled& filled) {
    if (random_() % 4 != 0) return;
    const std::size_t other = (filled.stream + 1) % streams_.size();
    runtime_.join(streams_[other], {streams_[filled.stream].ref()});
    filled.block.record_stream(streams_[other]);
    filled.stream = other;
  }

  std::vector<Piece> random_pieces(std::size_t bytes) {
    const std::size_t words = bytes / 8;
    const std::size_t count = std::min<std::size_t>(1 + random_() % kPieces, words);
    std::vector<Piece> pieces;
    for (std::size_t index = 0; index < count; ++index) {
      const std::size_t begin = words * index / count * 8;
      pieces.push_back({begin, words * (index + 1) / count * 8 - begin, 0});
    }
    return pieces;
  }
  /// Each power of two is equally frequent.
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
  options.device_allocator.limits.bytes_reserved_max = limit;
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
           {"pieces_written_again", tally.rewrites.load()},
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
