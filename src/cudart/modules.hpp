// SPDX-License-Identifier: Apache-2.0
// What nvcc's host code registers before main(): kernels and device variables, by the addresses
// that stand for them in the host program. Kernels have names and no code here. Device variables
// get zeroed memory in each context that uses them; their initial values are in the device code,
// which is not read.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/mutex.hpp"
#include "cudart/driver.hpp"

namespace berth::cudart {

struct Kernel {
  std::string name;  ///< of the device function, mangled
};

/// A binary that was registered.
struct Module {
  std::vector<const void*> kernels;
  std::vector<const void*> variables;
};

class Modules {
 public:
  Module* add();
  void remove(Module* module);
  void add_kernel(Module& module, const void* host_function, const char* name);
  void add_variable(Module& module, const void* host_variable, std::size_t bytes);
  /// `host_pointer` gets the address of the managed memory with the first use of the module.
  void add_managed(Module& module, void** host_pointer, std::size_t bytes);

  /// `function` is a host function that was registered, or what this returned for one; null for
  /// any other.
  const Kernel* find_kernel(const void* function);

  /// Bytes of the variable; false for an address that was not registered.
  bool find_variable(const void* host_variable, std::size_t& bytes);
  /// Memory of the variable in the current context. CUDA_ERROR_NOT_FOUND for an address that was
  /// not registered.
  CUresult variable_address(const Driver& driver, const void* host_variable, CUdeviceptr& address);
  /// Allocates all managed variables of `module` that have no memory.
  CUresult allocate_managed(const Driver& driver, const Module& module);

 private:
  struct Place {
    CUcontext context;
    std::uint64_t resets;

    auto operator<=>(const Place&) const = default;
  };
  struct Variable {
    std::size_t bytes = 0;
    void** managed = nullptr;  ///< null unless it is a managed variable
    std::map<Place, CUdeviceptr> addresses;
  };

  CUresult allocate_managed(const Driver& driver, Variable& variable) BERTH_REQUIRES(mutex_);

  Mutex mutex_;
  std::vector<std::unique_ptr<Module>> modules_ BERTH_GUARDED_BY(mutex_);
  std::unordered_map<const void*, std::unique_ptr<Kernel>> kernels_ BERTH_GUARDED_BY(mutex_);
  std::unordered_map<const void*, Variable> variables_ BERTH_GUARDED_BY(mutex_);
};

/// Never destroyed: programs unregister while they end.
Modules& modules();

}  // namespace berth::cudart
