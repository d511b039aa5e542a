// SPDX-License-Identifier: Apache-2.0
#include "copy/operand/host_memcpy.hpp"

#include <cstring>

#ifdef __x86_64__
#include <cpuid.h>
#endif

namespace berth {
namespace {

#ifdef __x86_64__

/// Below that, `rep movsb` takes too long to start: rows, and scattered ranges.
constexpr std::size_t kRepMovsbBytesMin = std::size_t{16} << 10;

/// An Intel processor with enhanced REP MOVSB, which copies large pieces as fast as anything there.
/// On AMD the instruction can be several times slower than other loops, depending on the two
/// addresses, and the C library knows the cases.
/// Source: Intel SDM volume 2, CPUID, leaf 7, EBX bit 9; glibc, bug 30994.
bool has_fast_rep_movsb() {
  unsigned eax = 0;
  unsigned ebx = 0;
  unsigned ecx = 0;
  unsigned edx = 0;
  if (__get_cpuid(0, &eax, &ebx, &ecx, &edx) == 0 || ebx != signature_INTEL_ebx) return false;
  return __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) != 0 && (ebx & (1U << 9)) != 0;
}

bool copy_by_rep_movsb(void* target, const void* source, std::size_t bytes) {
  static const bool is_fast = has_fast_rep_movsb();
  if (bytes < kRepMovsbBytesMin || !is_fast) return false;
  asm volatile("rep movsb" : "+D"(target), "+S"(source), "+c"(bytes) : : "memory");
  return true;
}

#else

bool copy_by_rep_movsb(void*, const void*, std::size_t) {
  return false;
}

#endif

}  // namespace

void host_memcpy(void* target, const void* source, std::size_t bytes) {
  if (bytes == 0 || copy_by_rep_movsb(target, source, bytes))
    return;  // null is allowed for 0 bytes
  std::memcpy(target, source, bytes);
}

}  // namespace berth
