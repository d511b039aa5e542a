// SPDX-License-Identifier: Apache-2.0
// The computation of a kernel stand-in. It is code of the program, and may wait for a lock of the
// program, such as that of an interpreter, whose holder may be in a driver call. So it is neither
// called nor destroyed under sim::mutex.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "berth/sim.hpp"

#include "base/mutex.hpp"
#include "sim/lock.hpp"

namespace berth::sim {

/// Shared by its copies; destroyed by destroy_retired_computations() once there is none.
class Computation {
 public:
  Computation() = default;
  /// Of an empty function: none.
  explicit Computation(KernelFunction function);

  explicit operator bool() const { return function_ != nullptr; }
  /// What the function has thrown; nullopt if it has returned.
  [[nodiscard]] std::optional<std::string> operator()(KernelMemory ranges) const
      BERTH_EXCLUDES(mutex);

 private:
  std::shared_ptr<const KernelFunction> function_;
};

/// Destroys the functions that no work refers to any more. Each call of the driver ends with it.
void destroy_retired_computations() BERTH_EXCLUDES(mutex);

}  // namespace berth::sim
