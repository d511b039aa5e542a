// SPDX-License-Identifier: Apache-2.0
// Measures the speed of one thread that fills and empties staging memory. Nanoseconds for a piece
// of 512 KiB between a gigabyte of pageable memory and a ring of 32 MiB: by memcpy, which berth
// uses, compared with `rep movsb` and non-temporal stores.
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <sys/mman.h>

#ifdef __x86_64__
#include <immintrin.h>
#endif

#include "berth/bytes.hpp"

#include "support/benchmarks.hpp"

namespace berth::bench {
namespace {

constexpr std::size_t kPiece = 512_KiB;
constexpr std::size_t kRing = 32_MiB;
constexpr std::size_t kMemory = 1_GiB;

using Memcpy = void (*)(void* target, const void* source, std::size_t bytes);

void plain(void* target, const void* source, std::size_t bytes) {
  std::memcpy(target, source, bytes);
}

#ifdef __x86_64__
void rep_movsb(void* target, const void* source, std::size_t bytes) {
  asm volatile("rep movsb" : "+D"(target), "+S"(source), "+c"(bytes) : : "memory");
}

/// `target` is aligned to a page, `bytes` is a multiple of 32.
__attribute__((target("avx2"))) void past_cache(void* target, const void* source,
                                                std::size_t bytes) {
  auto* const to = static_cast<__m256i*>(target);
  const auto* const from = static_cast<const __m256i*>(source);
  for (std::size_t index = 0; index < bytes / sizeof(__m256i); ++index)
    _mm256_stream_si256(to + index, _mm256_loadu_si256(from + index));
  _mm_sfence();
}
#endif

/// Prefaulted memory, in huge pages if the system provides them.
class Pages {
 public:
  explicit Pages(std::size_t bytes)
      : bytes_(bytes),
        data_(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {
    if (data_ == MAP_FAILED) std::abort();
    madvise(data_, bytes, MADV_HUGEPAGE);
    std::memset(data_, 1, bytes);
  }
  ~Pages() { munmap(data_, bytes_); }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;

  /// The piece at `offset`, modulo the size.
  [[nodiscard]] std::byte* at(std::size_t offset) const {
    return static_cast<std::byte*>(data_) + offset % bytes_;
  }

 private:
  const std::size_t bytes_;
  void* const data_;
};

struct Ground {
  Pages memory{kMemory};
  Pages ring{kRing};
};

enum class Direction { in, out };

void time_pieces(benchmark::State& state, Direction direction, Memcpy copy) {
  static const Ground ground;
  std::size_t offset = 0;
  for (auto _ : state) {
    std::byte* const memory = ground.memory.at(offset);
    std::byte* const ring = ground.ring.at(offset);
    if (direction == Direction::in)
      copy(ring, memory, kPiece);
    else
      copy(memory, ring, kPiece);
    offset += kPiece;
  }
  state.SetItemsProcessed(state.iterations());
}

void add_ways(Session& session, const char* figure, Direction direction) {
  const auto add_way = [&](const char* name, Memcpy copy) {
    add(session, figure, name, "",
        [direction, copy](benchmark::State& state) { time_pieces(state, direction, copy); });
  };
  add_way("berth", &plain);
#ifdef __x86_64__
  add_way("rep_movsb", &rep_movsb);
  if (__builtin_cpu_supports("avx2")) add_way("past_cache", &past_cache);
#endif
}

}  // namespace

void add_benchmarks(Session& session) {
  add_ways(session, "staging_in", Direction::in);
  add_ways(session, "staging_out", Direction::out);
}

}  // namespace berth::bench
