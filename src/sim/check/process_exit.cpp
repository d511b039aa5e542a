// SPDX-License-Identifier: Apache-2.0
#include "sim/check/process_exit.hpp"

#include <array>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <dlfcn.h>
#include <execinfo.h>
#include <link.h>
#include <type_traits>

namespace berth::sim {
namespace {

struct PythonValue;  // of Python's

// Of Python's stable interface. The first two need no lock.
#define BERTH_PYTHON_EXIT_FUNCTIONS(X)                                  \
  X(Py_IsInitialized, int())                                            \
  X(Py_AddPendingCall, int(int (*)(void*), void*))                      \
                                                                        \
  X(PyImport_ImportModule, PythonValue*(const char*))                   \
  X(PyObject_GetAttrString, PythonValue*(PythonValue*, const char*))    \
  X(PyCFunction_NewEx, PythonValue*(void*, PythonValue*, PythonValue*)) \
  X(PyObject_CallFunctionObjArgs, PythonValue*(PythonValue*, ...))      \
  X(Py_BuildValue, PythonValue*(const char*, ...))                      \
  X(PyErr_Clear, void())                                                \
  X(Py_DecRef, void(PythonValue*))

struct PythonExitFunctions {
#define BERTH_PYTHON_EXIT_MEMBER(symbol, type) std::add_pointer_t<type> symbol = nullptr;
  BERTH_PYTHON_EXIT_FUNCTIONS(BERTH_PYTHON_EXIT_MEMBER)
#undef BERTH_PYTHON_EXIT_MEMBER
  bool all = false;
};

/// PyMethodDef.
struct PythonMethod {
  const char* name;
  PythonValue* (*function)(PythonValue*, PythonValue*);
  int flags;
  const char* text;
};
constexpr int kNoArguments = 4;  // METH_NOARGS

struct Code {
  std::uint64_t start = 0;
  std::uint64_t bytes = 0;
};

// Written when this library is loaded: later, the loader's lock could be another thread's, which
// waits for that of the simulator.
PythonExitFunctions python_exit;
Code exit_function;

[[gnu::constructor]] void find_exits() {
  python_exit.all = true;
  const auto find = [](const char* symbol) {
    void* const found = dlsym(RTLD_DEFAULT, symbol);
    python_exit.all = python_exit.all && found != nullptr;
    return found;
  };
#define BERTH_PYTHON_EXIT_LOAD(symbol, type) \
  python_exit.symbol = reinterpret_cast<std::add_pointer_t<type>>(find(#symbol));
  BERTH_PYTHON_EXIT_FUNCTIONS(BERTH_PYTHON_EXIT_LOAD)
#undef BERTH_PYTHON_EXIT_LOAD
  Dl_info info{};
  const ElfW(Sym)* symbol = nullptr;
  if (dladdr1(dlsym(RTLD_DEFAULT, "exit"), &info,
              reinterpret_cast<void**>(const_cast<ElfW(Sym)**>(&symbol)), RTLD_DL_SYMENT) != 0 &&
      symbol != nullptr)
    exit_function = {reinterpret_cast<std::uint64_t>(info.dli_saddr), symbol->st_size};
}

std::atomic<bool> python_has_ended = false;

PythonValue* note_python_end(PythonValue*, PythonValue*) {
  python_has_ended.store(true, std::memory_order_relaxed);
  return python_exit.Py_BuildValue("");
}

/// On Python's main thread, with its lock. These functions run before all handlers of its module
/// atexit.
int register_with_python(void*) {
  static PythonMethod method = {"note_python_end", note_python_end, kNoArguments, nullptr};
  PythonValue* const threading = python_exit.PyImport_ImportModule("threading");
  PythonValue* const add = threading == nullptr
                               ? nullptr
                               : python_exit.PyObject_GetAttrString(threading, "_register_atexit");
  PythonValue* const note =
      add == nullptr ? nullptr : python_exit.PyCFunction_NewEx(&method, nullptr, nullptr);
  PythonValue* const done =
      note == nullptr ? nullptr : python_exit.PyObject_CallFunctionObjArgs(add, note, nullptr);
  for (PythonValue* const object : {threading, add, note, done})
    if (object != nullptr) python_exit.Py_DecRef(object);
  python_exit.PyErr_Clear();
  return 0;
}

/// Whether exit() is among the callers of this thread's call.
bool is_in_exit() {
  constexpr int kFramesMax = 256;
  std::array<void*, kFramesMax> frames{};
  const int taken = backtrace(frames.data(), kFramesMax);
  for (int i = 0; i < taken; ++i) {
    // It never returns, so that the address to return to may be that of the next function.
    const std::uint64_t call =
        reinterpret_cast<std::uint64_t>(frames[static_cast<std::size_t>(i)]) - 1;
    if (call - exit_function.start < exit_function.bytes) return true;
  }
  return false;
}

}  // namespace

void watch_python_exit() {
  static std::atomic<bool> has_asked = false;
  if (!python_exit.all || python_exit.Py_IsInitialized() == 0) return;
  if (has_asked.exchange(true)) return;
  python_exit.Py_AddPendingCall(register_with_python, nullptr);
}

bool process_exits() {
  return python_has_ended.load(std::memory_order_relaxed) || is_in_exit();
}

}  // namespace berth::sim
