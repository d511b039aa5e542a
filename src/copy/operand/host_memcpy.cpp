// SPDX-License-Identifier: Apache-2.0
#include "copy/operand/host_memcpy.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <type_traits>

#ifdef __x86_64__
#include <cpuid.h>
#include <immintrin.h>
#endif

namespace berth {
namespace {

void plain(void* target, const void* source, std::size_t bytes) {
  if (bytes != 0) std::memcpy(target, source, bytes);  // of nothing the addresses may be null
}

#ifdef __x86_64__

constexpr std::size_t kLineBytes = 64;
/// How far ahead of the loads memory is asked for.
constexpr std::size_t kPrefetchBytes = 1024;

/// Source: Intel SDM volume 2, CPUID leaf 7: EBX bit 9, enhanced REP MOVSB.
bool has_fast_rep_movsb() {
  unsigned eax = 0;
  unsigned ebx = 0;
  unsigned ecx = 0;
  unsigned edx = 0;
  return __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) != 0 && (ebx & (1U << 9)) != 0;
}

void rep_movsb(void* target, const void* source, std::size_t bytes) {
  asm volatile("rep movsb" : "+D"(target), "+S"(source), "+c"(bytes) : : "memory");
}

__attribute__((target("avx2"))) void copy_line(std::byte* target, const std::byte* source) {
  const auto* from = reinterpret_cast<const __m256i*>(source);
  auto* to = reinterpret_cast<__m256i*>(target);
  const __m256i low = _mm256_loadu_si256(from);
  const __m256i high = _mm256_loadu_si256(from + 1);
  _mm256_stream_si256(to, low);
  _mm256_stream_si256(to + 1, high);
}

__attribute__((target("avx2"))) void past_cache(void* to, const void* from, std::size_t bytes) {
  auto* const target = static_cast<std::byte*>(to);
  const auto* const source = static_cast<const std::byte*>(from);
  const std::size_t unaligned = -reinterpret_cast<std::uintptr_t>(target) % kLineBytes;
  const std::size_t head = std::min(bytes, unaligned);
  std::memcpy(target, source, head);
  std::size_t done = head;
  for (; bytes - done >= 2 * kLineBytes; done += 2 * kLineBytes) {
    _mm_prefetch(source + done + kPrefetchBytes, _MM_HINT_NTA);
    _mm_prefetch(source + done + kPrefetchBytes + kLineBytes, _MM_HINT_NTA);
    copy_line(target + done, source + done);
    copy_line(target + done + kLineBytes, source + done + kLineBytes);
  }
  std::memcpy(target + done, source + done, bytes - done);
  _mm_sfence();  // such stores are ordered with no others
}

#endif

/// Below that, what a way takes to begin and to end counts: rows, and what is scattered.
constexpr std::size_t kSmallBytes = std::size_t{16} << 10;
/// Smaller pieces tell nothing of larger ones; memcpy will do for them.
constexpr std::size_t kTrialBytesMin = std::size_t{256} << 10;
constexpr std::size_t kTrialsEach = 6;

}  // namespace

FastestMemcpy::FastestMemcpy() {
  add(&plain);
#ifdef __x86_64__
  if (has_fast_rep_movsb()) add(&rep_movsb);
  if (__builtin_cpu_supports("avx2")) add(&past_cache);
#endif
}

void FastestMemcpy::operator()(void* target, const void* source, std::size_t bytes) {
  if (bytes < kSmallBytes) return plain(target, source, bytes);
  if (const Memcpy best = best_.load(std::memory_order_relaxed)) return best(target, source, bytes);
  if (bytes < kTrialBytesMin) return plain(target, source, bytes);
  try_next(target, source, bytes);
}

void FastestMemcpy::try_next(void* target, const void* source, std::size_t bytes) {
  using Clock = std::chrono::steady_clock;
  const std::size_t trial = begun_.fetch_add(1);
  Way& way = ways_[trial % count_];
  const Clock::time_point begin = Clock::now();
  way.copy(target, source, bytes);
  const std::chrono::duration<double, std::nano> took = Clock::now() - begin;
  const double ns_per_byte = took.count() / static_cast<double>(bytes);
  double least = way.ns_per_byte.load();
  while (ns_per_byte < least && !way.ns_per_byte.compare_exchange_weak(least, ns_per_byte))
    continue;
  if (ended_.fetch_add(1) + 1 == count_ * kTrialsEach) choose();
}

void FastestMemcpy::choose() {
  const Way* const best = std::min_element(
      ways_.data(), ways_.data() + count_,
      [](const Way& a, const Way& b) { return a.ns_per_byte.load() < b.ns_per_byte.load(); });
  best_.store(best->copy, std::memory_order_relaxed);
}

// One for each direction. Without destructors: threads may copy to the last.

void memcpy_to_staging(void* staging, const void* source, std::size_t bytes) {
  static FastestMemcpy fastest;
  static_assert(std::is_trivially_destructible_v<FastestMemcpy>);
  fastest(staging, source, bytes);
}

void memcpy_from_staging(void* target, const void* staging, std::size_t bytes) {
  static FastestMemcpy fastest;
  fastest(target, staging, bytes);
}

}  // namespace berth
