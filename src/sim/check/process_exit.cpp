// SPDX-License-Identifier: Apache-2.0
#include "sim/check/process_exit.hpp"

#include <array>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <dlfcn.h>
#include <execinfo.h>
#include <link.h>

#include "sim/check/python_functions.hpp"

namespace berth::sim {
namespace {

// Of Python's stable interface. The first two need no lock.
#define BERTH_PYTHON_EXIT_FUNCTIONS(X)                                     \
  X(Py_IsInitialized, int())                                               \
  X(Py_AddPendingCall, int(int (*)(void*), void*))                         \
                                                                           \
  X(PyImport_ImportModule, PythonObject*(const char*))                     \
  X(PyObject_GetAttrString, PythonObject*(PythonObject*, const char*))     \
  X(PyCFunction_NewEx, PythonObject*(void*, PythonObject*, PythonObject*)) \
  X(PyObject_CallFunctionObjArgs, PythonObject*(PythonObject*, ...))       \
  X(Py_BuildValue, PythonObject*(const char*, ...))                        \
  X(PyErr_Clear, void())                                                   \
  X(Py_DecRef, void(PythonObject*))

BERTH_PYTHON_FUNCTIONS(PythonExitFunctions, BERTH_PYTHON_EXIT_FUNCTIONS)

/// PyMethodDef.
struct PythonMethod {
  const char* name;
  PythonObject* (*function)(PythonObject*, PythonObject*);
  int flags;
  const char* text;
};
constexpr int kNoArguments = 4;  // METH_NOARGS

struct Code {
  std::uint64_t start = 0;
  std::uint64_t bytes = 0;
};

// Written when this library is loaded.
PythonExitFunctions python_exit;
bool has_python_exit = false;
Code exit_function;

[[gnu::constructor]] void find_exits() {
  has_python_exit = python_exit.load();
  Dl_info info{};
  const ElfW(Sym)* symbol = nullptr;
  if (dladdr1(dlsym(RTLD_DEFAULT, "exit"), &info,
              reinterpret_cast<void**>(const_cast<ElfW(Sym)**>(&symbol)), RTLD_DL_SYMENT) != 0 &&
      symbol != nullptr)
    exit_function = {reinterpret_cast<std::uint64_t>(info.dli_saddr), symbol->st_size};
}

std::atomic<bool> python_has_ended = false;

PythonObject* note_python_end(PythonObject*, PythonObject*) {
  python_has_ended.store(true, std::memory_order_relaxed);
  return python_exit.Py_BuildValue("");
}

/// On Python's main thread, with its lock. These functions run before all handlers of its module
/// atexit.
int register_with_python(void*) {
  static PythonMethod method = {"note_python_end", note_python_end, kNoArguments, nullptr};
  PythonObject* const threading = python_exit.PyImport_ImportModule("threading");
  PythonObject* const add = threading == nullptr
                                ? nullptr
                                : python_exit.PyObject_GetAttrString(threading, "_register_atexit");
  PythonObject* const note =
      add == nullptr ? nullptr : python_exit.PyCFunction_NewEx(&method, nullptr, nullptr);
  PythonObject* const done =
      note == nullptr ? nullptr : python_exit.PyObject_CallFunctionObjArgs(add, note, nullptr);
  for (PythonObject* const object : {threading, add, note, done})
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
  if (!has_python_exit || python_exit.Py_IsInitialized() == 0) return;
  if (has_asked.exchange(true)) return;
  python_exit.Py_AddPendingCall(register_with_python, nullptr);
}

bool process_exits() {
  return python_has_ended.load(std::memory_order_relaxed) || is_in_exit();
}

}  // namespace berth::sim
