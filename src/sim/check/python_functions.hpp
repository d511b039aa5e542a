// SPDX-License-Identifier: Apache-2.0
// Functions of the Python interpreter that the program is, or has loaded.
#pragma once

#include <dlfcn.h>
#include <type_traits>

namespace berth::sim {

struct PythonObject;  // of Python's

}  // namespace berth::sim

/// Declares a struct with a pointer to each symbol of a list, `LIST(X)`, which is a list of
/// X(symbol, type). load() returns whether the process has all of them. It is called when this
/// library is loaded: later, the loader's lock could be another thread's, which waits for that of
/// the simulator.
#define BERTH_PYTHON_FUNCTIONS(Name, LIST) \
  struct Name {                            \
    bool load() {                          \
      bool all = true;                     \
      LIST(BERTH_PYTHON_LOAD)              \
      return all;                          \
    }                                      \
    LIST(BERTH_PYTHON_MEMBER)              \
  };
#define BERTH_PYTHON_MEMBER(symbol, type) std::add_pointer_t<type> symbol = nullptr;
#define BERTH_PYTHON_LOAD(symbol, type)                                                       \
  if (all) symbol = reinterpret_cast<std::add_pointer_t<type>>(dlsym(RTLD_DEFAULT, #symbol)); \
  all = symbol != nullptr;
