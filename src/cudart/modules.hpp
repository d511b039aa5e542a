// SPDX-License-Identifier: Apache-2.0
// The registrations of nvcc's host code before main(): kernels and device variables, by the
// addresses that represent them in the host program. Kernels have names and no code. Device
// variables get zeroed memory in each context that uses them; their initial values are in the
// device code, which is not read.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/mutex.hpp"
#include "cudart/driver.hpp"

namespace berth::cudart {

struct Kernel {
  std::string name;  ///< mangled, of the device function
};

/// A registered binary.
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
  /// At the first use of the module, `host_pointer` is set to the managed memory.
  void add_managed(Module& module, void** host_pointer, std::size_t bytes);

  /// `function` is a registered host function, or a handle that this has returned; null for any
  /// other.
  const Kernel* find_kernel(const void* function);
  /// The host function of a kernel of that name, the first if several have it; null if there is
  /// none.
  const void* find_host_function(std::string_view name);

  /// The size of the variable; false for an address that is not registered.
  bool find_variable(const void* host_variable, std::size_t& bytes);
  /// The memory of the variable in the current context. CUDA_ERROR_NOT_FOUND for an address that is
  /// not registered.
  CUresult variable_address(const Driver& driver, const void* host_variable, CUdeviceptr& address);
  /// The program writes the variable, or may do so by its address.
  void note_write(const void* host_variable);
  [[nodiscard]] bool is_written(const void* host_variable);
  /// Allocates all managed variables of `module` that have no memory yet.
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
    bool is_written = false;
  };

  CUresult allocate_managed(const Driver& driver, Variable& variable) BERTH_REQUIRES(mutex_);

  Mutex mutex_;
  std::vector<std::unique_ptr<Module>> modules_ BERTH_GUARDED_BY(mutex_);
  std::unordered_map<const void*, std::unique_ptr<Kernel>> kernels_ BERTH_GUARDED_BY(mutex_);
  std::unordered_map<const void*, Variable> variables_ BERTH_GUARDED_BY(mutex_);
};

/// Never destroyed, because programs unregister at exit.
Modules& modules();

}  // namespace berth::cudart
