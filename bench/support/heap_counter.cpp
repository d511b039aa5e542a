// SPDX-License-Identifier: Apache-2.0
// A program's own malloc overrides the C library's in each library that it loads; glibc has its own
// under other names.
#include "support/heap_counter.hpp"

#include <cerrno>
#include <cstddef>

// NOLINTBEGIN(bugprone-reserved-identifier): glibc's names
extern "C" {
void* __libc_malloc(std::size_t bytes);
void* __libc_calloc(std::size_t count, std::size_t bytes);
void* __libc_realloc(void* data, std::size_t bytes);
void* __libc_memalign(std::size_t alignment, std::size_t bytes);
void __libc_free(void* data);
}
// NOLINTEND(bugprone-reserved-identifier)

namespace berth::bench {
namespace {

constinit thread_local std::uint64_t calls = 0;

}  // namespace

std::uint64_t heap_calls_of_thread() {
  return calls;
}

extern "C" {

void* malloc(std::size_t bytes) {
  ++calls;
  return __libc_malloc(bytes);
}

void* calloc(std::size_t count, std::size_t bytes) {
  ++calls;
  return __libc_calloc(count, bytes);
}

void* realloc(void* data, std::size_t bytes) {
  ++calls;
  return __libc_realloc(data, bytes);
}

void* memalign(std::size_t alignment, std::size_t bytes) {
  ++calls;
  return __libc_memalign(alignment, bytes);
}

void* aligned_alloc(std::size_t alignment, std::size_t bytes) {
  return memalign(alignment, bytes);
}

int posix_memalign(void** data, std::size_t alignment, std::size_t bytes) {
  void* const memory = memalign(alignment, bytes);
  if (memory == nullptr) return ENOMEM;
  *data = memory;
  return 0;
}

void free(void* data) {
  if (data != nullptr) ++calls;
  __libc_free(data);
}

}  // extern "C"

}  // namespace berth::bench
