// SPDX-License-Identifier: Apache-2.0
#include "sim/work/computation.hpp"

#include <atomic>
#include <exception>
#include <utility>

#include "sim/device/context.hpp"

namespace berth::sim {
namespace {

struct Kept {
  KernelFunction function;
  Kept* next = nullptr;
};

/// A list, of which threads only take the whole.
constinit std::atomic<Kept*> retired = nullptr;

void retire(Kept* kept) {
  kept->next = retired.load(std::memory_order_relaxed);
  while (!retired.compare_exchange_weak(kept->next, kept, std::memory_order_release,
                                        std::memory_order_relaxed)) {
  }
}

/// The thread runs code of the program in a call, which must not call the driver.
class HostFunctionScope {
 public:
  HostFunctionScope() : outer_(std::exchange(this_thread().in_host_function, true)) {}
  ~HostFunctionScope() { this_thread().in_host_function = outer_; }
  HostFunctionScope(const HostFunctionScope&) = delete;
  HostFunctionScope& operator=(const HostFunctionScope&) = delete;

 private:
  bool outer_;
};

}  // namespace

Computation::Computation(KernelFunction function) {
  if (!function) return;
  const std::shared_ptr<Kept> kept(new Kept{std::move(function)}, &retire);
  function_ = {kept, &kept->function};
}

std::optional<std::string> Computation::operator()(KernelMemory ranges) const {
  const HostFunctionScope scope;
  try {
    (*function_)(ranges);
  } catch (const std::exception& thrown) {
    return thrown.what();
  } catch (...) {
    return "it threw no std::exception";
  }
  return std::nullopt;
}

void destroy_retired_computations() {
  if (retired.load(std::memory_order_relaxed) == nullptr) return;
  Kept* kept = retired.exchange(nullptr, std::memory_order_acquire);
  while (kept != nullptr) delete std::exchange(kept, kept->next);
}

}  // namespace berth::sim
