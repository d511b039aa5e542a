// SPDX-License-Identifier: Apache-2.0
#include "support/scarce_memory.hpp"

#include <cstdlib>
#include <new>
#include <utility>

#include "base/check.hpp"

namespace berth::test {
namespace {

constinit thread_local bool is_scarce = false;
constinit thread_local std::size_t granted_calls = 0;
constinit thread_local std::size_t refused_calls = 0;
constinit thread_local std::size_t counted_calls = 0;

void* allocate(std::size_t bytes) {
  if (is_scarce && ++counted_calls > granted_calls &&
      counted_calls - granted_calls <= refused_calls)
    throw std::bad_alloc();
  void* const data = std::malloc(bytes > 0 ? bytes : 1);
  if (data == nullptr) throw std::bad_alloc();
  return data;
}

}  // namespace

ScarceMemory::ScarceMemory(std::size_t granted, std::size_t refused) {
  BERTH_CHECK(!is_scarce);
  is_scarce = true;
  granted_calls = granted;
  refused_calls = refused;
  counted_calls = 0;
}

ScarceMemory::~ScarceMemory() {
  is_scarce = false;
}

std::size_t ScarceMemory::calls() const {
  return counted_calls;
}

PlentifulMemory::PlentifulMemory() : was_scarce_(std::exchange(is_scarce, false)) {}

PlentifulMemory::~PlentifulMemory() {
  is_scarce = was_scarce_;
}

}  // namespace berth::test

// All operators except those with an alignment, which are a separate pair.
void* operator new(std::size_t bytes) {
  return berth::test::allocate(bytes);
}
void* operator new[](std::size_t bytes) {
  return berth::test::allocate(bytes);
}
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  try {
    return berth::test::allocate(bytes);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}
void* operator new[](std::size_t bytes, const std::nothrow_t& nothrow) noexcept {
  return operator new(bytes, nothrow);
}
void operator delete(void* data, const std::nothrow_t&) noexcept {
  std::free(data);
}
void operator delete[](void* data, const std::nothrow_t&) noexcept {
  std::free(data);
}
void operator delete(void* data) noexcept {
  std::free(data);
}
void operator delete[](void* data) noexcept {
  std::free(data);
}
void operator delete(void* data, std::size_t) noexcept {
  std::free(data);
}
void operator delete[](void* data, std::size_t) noexcept {
  std::free(data);
}
