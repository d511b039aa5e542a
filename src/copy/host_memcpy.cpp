// SPDX-License-Identifier: Apache-2.0
#include "copy/host_memcpy.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>

#ifdef __x86_64__
#include <cpuid.h>
#include <immintrin.h>
#endif

namespace berth {
namespace {

#ifdef __x86_64__

/// Below this memcpy is as fast, and leaves the target in the cache.
constexpr std::size_t kWorthwhileBytes = std::size_t{64} << 10;
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

__attribute__((target("avx2"))) void copy_past_cache(std::byte* target, const std::byte* source,
                                                     std::size_t bytes) {
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

}  // namespace

void memcpy_to_staging(void* staging, const void* source, std::size_t bytes) {
#ifdef __x86_64__
  static const bool fast_rep_movsb = has_fast_rep_movsb();
  if (bytes >= kWorthwhileBytes && fast_rep_movsb) return rep_movsb(staging, source, bytes);
#endif
  std::memcpy(staging, source, bytes);
}

void memcpy_from_staging(void* target, const void* staging, std::size_t bytes) {
#ifdef __x86_64__
  static const bool has_avx2 = __builtin_cpu_supports("avx2") != 0;
  if (bytes >= kWorthwhileBytes && has_avx2)
    return copy_past_cache(static_cast<std::byte*>(target), static_cast<const std::byte*>(staging),
                           bytes);
#endif
  std::memcpy(target, staging, bytes);
}

}  // namespace berth
