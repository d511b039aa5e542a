// SPDX-License-Identifier: Apache-2.0
// mimalloc, a host allocator: the cost of a cached block if bookkeeping may be in the blocks
// themselves and there are no streams.
#pragma once

#include <cstddef>
#include <dlfcn.h>

namespace berth::bench {

/// Loaded rather than linked, because linking the package would replace malloc for everything that
/// the benchmark measures.
class Mimalloc {
 public:
  static constexpr const char* kMissing = "no libmimalloc.so.2 (Debian: libmimalloc2.0)";

  Mimalloc() {
    void* library = dlopen("libmimalloc.so.2", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return;
    malloc_ = reinterpret_cast<Malloc>(dlsym(library, "mi_malloc"));
    free_ = reinterpret_cast<Free>(dlsym(library, "mi_free"));
  }
  [[nodiscard]] bool usable() const { return malloc_ != nullptr && free_ != nullptr; }

  [[nodiscard]] void* allocate(std::size_t bytes) const { return malloc_(bytes); }
  void deallocate(void* data) const { free_(data); }

 private:
  using Malloc = void* (*)(std::size_t);
  using Free = void (*)(void*);
  // The library stays loaded, because it has per-thread state.
  Malloc malloc_ = nullptr;
  Free free_ = nullptr;
};

}  // namespace berth::bench
