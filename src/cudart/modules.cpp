// SPDX-License-Identifier: Apache-2.0
#include "cudart/modules.hpp"

#include <algorithm>
#include <atomic>
#include <utility>

#include "cudart/notices.hpp"
#include "cudart/thread.hpp"

namespace berth::cudart {
namespace {

/// As if it had been there since the program began: on no stream of the program, done before the
/// call returns, and allowed while streams capture.
CUresult make_zeroed(const Driver& driver, std::size_t bytes, CUdeviceptr& memory) {
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  const CUresult relaxed = driver.cuThreadExchangeStreamCaptureMode(&mode);
  if (relaxed != CUDA_SUCCESS) return relaxed;
  CUdeviceptr made = 0;
  CUstream stream = nullptr;
  CUresult result = driver.cuMemAlloc(&made, bytes);
  if (result == CUDA_SUCCESS) result = driver.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
  if (result == CUDA_SUCCESS) result = driver.cuMemsetD8Async(made, 0, bytes, stream);
  if (result == CUDA_SUCCESS) result = driver.cuStreamSynchronize(stream);
  if (stream != nullptr) driver.cuStreamDestroy(stream);
  if (result == CUDA_SUCCESS)
    memory = made;
  else if (made != 0)
    driver.cuMemFree(made);
  driver.cuThreadExchangeStreamCaptureMode(&mode);
  return result;
}

}  // namespace

Module* Modules::add() {
  const MutexLock lock(mutex_);
  return modules_.emplace_back(std::make_unique<Module>()).get();
}

void Modules::remove(Module* module) {
  const MutexLock lock(mutex_);
  const auto found = std::find_if(modules_.begin(), modules_.end(),
                                  [&](const auto& known) { return known.get() == module; });
  if (found == modules_.end()) return;
  for (const void* kernel : module->kernels) kernels_.erase(kernel);
  for (const void* variable : module->variables) variables_.erase(variable);
  modules_.erase(found);
}

void Modules::add_kernel(Module& module, const void* host_function, const char* name) {
  const MutexLock lock(mutex_);
  module.kernels.push_back(host_function);
  kernels_[host_function] = std::make_unique<Kernel>(Kernel{name});
}

void Modules::add_variable(Module& module, const void* host_variable, std::size_t bytes) {
  const MutexLock lock(mutex_);
  module.variables.push_back(host_variable);
  variables_[host_variable] = Variable{.bytes = bytes, .addresses = {}};
}

void Modules::add_managed(Module& module, void** host_pointer, std::size_t bytes) {
  const MutexLock lock(mutex_);
  module.variables.push_back(host_pointer);
  variables_[host_pointer] = Variable{.bytes = bytes, .managed = host_pointer, .addresses = {}};
}

const Kernel* Modules::find_kernel(const void* function) {
  const MutexLock lock(mutex_);
  const auto found = kernels_.find(function);
  if (found != kernels_.end()) return found->second.get();
  for (const auto& [host_function, kernel] : kernels_)
    if (kernel.get() == function) return kernel.get();
  return nullptr;
}

const void* Modules::find_host_function(std::string_view name) {
  const MutexLock lock(mutex_);
  for (const auto& module : modules_)
    for (const void* const host_function : module->kernels)
      if (kernels_.at(host_function)->name == name) return host_function;
  return nullptr;
}

bool Modules::find_variable(const void* host_variable, std::size_t& bytes) {
  const MutexLock lock(mutex_);
  const auto found = variables_.find(host_variable);
  if (found == variables_.end()) return false;
  bytes = found->second.bytes;
  return true;
}

CUresult Modules::variable_address(const Driver& driver, const void* host_variable,
                                   CUdeviceptr& address) {
  CUcontext context = nullptr;
  std::size_t bytes = 0;
  {
    const MutexLock lock(mutex_);
    const auto found = variables_.find(host_variable);
    if (found == variables_.end()) return CUDA_ERROR_NOT_FOUND;
    Variable& variable = found->second;
    if (variable.managed != nullptr) {
      const CUresult result = allocate_managed(driver, variable);
      address = reinterpret_cast<CUdeviceptr>(*variable.managed);
      return result;
    }
    const CUresult known = driver.cuCtxGetCurrent(&context);
    if (known != CUDA_SUCCESS) return known;
    address = variable.addresses[{context, reset_count()}];
    if (address != 0) return CUDA_SUCCESS;
    bytes = variable.bytes;
  }
  // Without the lock, because it waits for the device.
  CUdeviceptr made = 0;
  const CUresult result = make_zeroed(driver, bytes, made);
  if (result != CUDA_SUCCESS) return result;
  {
    const MutexLock lock(mutex_);
    const auto found = variables_.find(host_variable);
    CUdeviceptr* const memory =
        found != variables_.end() ? &found->second.addresses[{context, reset_count()}] : nullptr;
    if (memory != nullptr && *memory == 0) *memory = std::exchange(made, 0);
    address = memory != nullptr ? *memory : 0;
  }
  if (made != 0) driver.cuMemFree(made);  // another thread was first, or the module is gone
  return address != 0 ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

void Modules::note_write(const void* host_variable) {
  const MutexLock lock(mutex_);
  const auto found = variables_.find(host_variable);
  if (found != variables_.end()) found->second.is_written = true;
}

bool Modules::is_written(const void* host_variable) {
  const MutexLock lock(mutex_);
  const auto found = variables_.find(host_variable);
  return found != variables_.end() && found->second.is_written;
}

CUresult Modules::allocate_managed(const Driver& driver, const Module& module) {
  const MutexLock lock(mutex_);
  for (const void* address : module.variables) {
    Variable& variable = variables_[address];
    if (variable.managed == nullptr) continue;
    const CUresult allocated = allocate_managed(driver, variable);
    if (allocated != CUDA_SUCCESS) return allocated;
  }
  return CUDA_SUCCESS;
}

// Managed memory belongs to no device: the first allocation serves all devices until a reset.
CUresult Modules::allocate_managed(const Driver& driver, Variable& variable) {
  CUdeviceptr& memory = variable.addresses[{nullptr, reset_count()}];
  if (memory != 0) return CUDA_SUCCESS;
  const CUresult allocated =
      driver.cuMemAllocManaged(&memory, variable.bytes, CU_MEM_ATTACH_GLOBAL);
  if (allocated != CUDA_SUCCESS) return allocated;
  *variable.managed = reinterpret_cast<void*>(memory);
  std::fill_n(static_cast<char*>(*variable.managed), variable.bytes, '\0');
  static std::atomic<bool> is_told = false;
  notice_once(is_told,
              "managed variables begin as zeros: their initial values are in device code, which is "
              "not read");
  return CUDA_SUCCESS;
}

Modules& modules() {
  static auto* const all = new Modules;
  return *all;
}

}  // namespace berth::cudart
