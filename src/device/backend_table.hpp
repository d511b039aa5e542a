// SPDX-License-Identifier: Apache-2.0
// The backends of a Runtime by device type. A backend is added once and stays until the table ends,
// so that a reader needs no lock.
#pragma once

#include <array>
#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "berth/device.hpp"
#include "berth/device_backend.hpp"

#include "base/fork.hpp"
#include "base/mutex.hpp"

namespace berth {

/// A backend, and the properties that are read once.
struct RegisteredBackend {
  RegisteredBackend(DeviceType type_, std::unique_ptr<DeviceBackend> backend_);
  ~RegisteredBackend();
  RegisteredBackend(const RegisteredBackend&) = delete;
  RegisteredBackend& operator=(const RegisteredBackend&) = delete;

  [[nodiscard]] int count() const noexcept { return static_cast<int>(devices.size()); }
  /// "there are tpu:0 to tpu:3", and the variables that select them, if they are set.
  [[nodiscard]] std::string list() const;

  const DeviceType type;
  std::unique_ptr<DeviceBackend> backend;
  std::string name;
  std::vector<DeviceAttribute> attributes;
  std::vector<DeviceAttribute> variables;  ///< of visible_variables(), as the backend found them
  std::vector<DeviceDescription> devices;  ///< by ordinal
  const ForkOrigin origin;
};

/// "there are cuda:0 to cuda:3"; "there are no KIND devices" for 0.
std::string list_devices(DeviceType type, int count, const char* kind);

/// Threads  Safe from any thread.
class BackendTable {
 public:
  /// Errors  InvalidArgument: null; a type of berth's own; a type that has a backend; a count that
  ///         is negative or too high. Exceptions of the backend. The backend is destroyed then.
  void add(DeviceType type, std::unique_ptr<DeviceBackend> backend) BERTH_EXCLUDES(mutex_);
  /// Errors  InvalidArgument: a type of berth's own; a type that has a backend.
  void require_free(DeviceType type) const;
  /// The devices of all backends, as text; empty without backends.
  [[nodiscard]] std::string list() const;
  /// Throws InvalidArgument for a device whose type has no backend.
  [[noreturn]] void refuse_unmanaged(Device device, const std::string& accepted) const;
  /// Null if the type has no backend.
  [[nodiscard]] const RegisteredBackend* find(DeviceType type) const noexcept {
    return slots_[static_cast<std::size_t>(type.number())].load(std::memory_order_acquire);
  }
  /// The types with a backend, in the order of their numbers.
  [[nodiscard]] std::vector<const RegisteredBackend*> all() const;

  /// Stores the reason why a type has no backend.
  void note_problem(DeviceType type, std::string problem) BERTH_EXCLUDES(mutex_);
  /// Empty if there is none.
  [[nodiscard]] std::string problem(DeviceType type) const BERTH_EXCLUDES(mutex_);

 private:
  mutable Mutex mutex_;
  std::vector<std::unique_ptr<RegisteredBackend>> owned_ BERTH_GUARDED_BY(mutex_);
  std::map<DeviceType, std::string> problems_ BERTH_GUARDED_BY(mutex_);
  std::array<std::atomic<const RegisteredBackend*>, DeviceType::kCountMax> slots_{};
};

}  // namespace berth
