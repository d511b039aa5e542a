// SPDX-License-Identifier: Apache-2.0
// Loads the look-alikes of the build folder.
#pragma once

#include <cstdlib>
#include <dlfcn.h>
#include <string>

#include <doctest/doctest.h>

namespace berth::test {

/// The look-alike of this name; null, with a message, if BERTH_SIM_LIBRARIES is not set.
inline void* open_lookalike(const char* name) {
  const char* folder = std::getenv("BERTH_SIM_LIBRARIES");
  if (folder == nullptr) {
    MESSAGE("skipped: BERTH_SIM_LIBRARIES does not name the folder of the look-alikes");
    return nullptr;
  }
  void* library = dlopen((std::string(folder) + "/" + name).c_str(), RTLD_NOW | RTLD_LOCAL);
  REQUIRE_MESSAGE(library != nullptr, dlerror());
  return library;
}

template <class Type>
Type* find(void* library, const char* symbol) {
  return reinterpret_cast<Type*>(dlsym(library, symbol));
}

}  // namespace berth::test
