// SPDX-License-Identifier: Apache-2.0
// mimalloc, a host allocator: what a cached block costs where bookkeeping may live in the blocks
// themselves and no stream has to be asked about.
#pragma once

#include <cstddef>
#include <dlfcn.h>

namespace berth::bench {

/// Loaded rather than linked: as it is packaged, linking it would replace malloc for all that the
/// benchmark measures.
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
  // The library stays loaded: it has threads' state of its own.
  Malloc malloc_ = nullptr;
  Free free_ = nullptr;
};

}  // namespace berth::bench
