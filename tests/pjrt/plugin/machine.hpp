// SPDX-License-Identifier: Apache-2.0
// What the devices of the plug-in are: memory, and copies. Host memory whose copies are done at
// once, or the simulated CUDA driver (simulated_machine.cpp).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>

#include "pjrt/pjrt_abi.hpp"

namespace berth::pjrt {

/// What a machine refuses.
class MachineError : public std::runtime_error {
 public:
  MachineError(Code code_, const std::string& text) : std::runtime_error(text), code(code_) {}
  const Code code;
};

/// Work of a machine that may still run.
class Work {
 public:
  Work() = default;
  virtual ~Work() = default;
  Work(const Work&) = delete;
  Work& operator=(const Work&) = delete;

  // Errors  MachineError: the work has failed.
  [[nodiscard]] virtual bool is_done() = 0;
  virtual void wait() = 0;
};
/// Null: it is done.
using Started = std::shared_ptr<Work>;

/// The memory of a buffer. Its operations are ordered as they are started. Its destructor frees the
/// memory once they are done, and does not wait.
class Storage {
 public:
  explicit Storage(std::size_t bytes) : bytes_(bytes) {}
  virtual ~Storage() = default;
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;

  [[nodiscard]] std::size_t bytes() const { return bytes_; }

  // Errors  MachineError: nothing was started.

  struct Write {
    Started source_read;  ///< from here on the source may change
    Started done;
  };
  virtual Write write(std::size_t offset, const void* source, std::size_t bytes) = 0;
  virtual Started read(std::size_t offset, void* target, std::size_t bytes) = 0;
  /// From all of another storage of the same machine and size.
  virtual Started copy_from(Storage& source) = 0;
  /// All writes so far.
  virtual Started written() = 0;

 private:
  const std::size_t bytes_;
};

/// Threads  Safe from any thread.
class Machine {
 public:
  struct Usage {
    std::int64_t bytes_used;
    std::int64_t bytes_limit;
  };

  Machine() = default;
  virtual ~Machine() = default;
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

  // Errors  MachineError.
  [[nodiscard]] virtual std::shared_ptr<Storage> allocate(int device, std::size_t bytes) = 0;
  /// What the machine itself knows of a device; nullopt: nothing.
  [[nodiscard]] virtual std::optional<Usage> usage(int device) = 0;
  virtual void map(void* data, std::size_t bytes) = 0;
  virtual void unmap(void* data) = 0;
};

std::shared_ptr<Machine> make_host_machine();

/// berth_sim_resolve().
using ResolveDriver = void*(const char* symbol);
/// `devices` of the simulated driver, which ends after the machine.
/// Errors  MachineError.
std::shared_ptr<Machine> make_simulated_machine(ResolveDriver* resolve, int devices);

}  // namespace berth::pjrt
