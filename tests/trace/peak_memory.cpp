// SPDX-License-Identifier: Apache-2.0
#include "trace/peak_memory.hpp"

#include <algorithm>
#include <cstdlib>
#include <malloc.h>
#include <new>

namespace {

thread_local std::ptrdiff_t held = 0;
thread_local std::ptrdiff_t peak = 0;

void* allocate(std::size_t bytes) noexcept {
  void* const memory = std::malloc(bytes);
  // Untouched pages of a large array count too, as they may be touched.
  if (memory != nullptr) held += static_cast<std::ptrdiff_t>(malloc_usable_size(memory));
  peak = std::max(peak, held);
  return memory;
}

void release(void* memory) noexcept {
  if (memory != nullptr) held -= static_cast<std::ptrdiff_t>(malloc_usable_size(memory));
  std::free(memory);
}

}  // namespace

void* operator new(std::size_t bytes) {
  if (void* const memory = allocate(bytes)) return memory;
  throw std::bad_alloc();
}
void* operator new[](std::size_t bytes) {
  return operator new(bytes);
}
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  return allocate(bytes);
}
void* operator new[](std::size_t bytes, const std::nothrow_t&) noexcept {
  return allocate(bytes);
}
void operator delete(void* memory) noexcept {
  release(memory);
}
void operator delete[](void* memory) noexcept {
  release(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  release(memory);
}
void operator delete[](void* memory, std::size_t) noexcept {
  release(memory);
}
void operator delete(void* memory, const std::nothrow_t&) noexcept {
  release(memory);
}
void operator delete[](void* memory, const std::nothrow_t&) noexcept {
  release(memory);
}

namespace berth::test {

PeakMemory::PeakMemory() : before_(held) {
  peak = held;
}

std::size_t PeakMemory::bytes() const {
  return static_cast<std::size_t>(peak - before_);
}

}  // namespace berth::test
