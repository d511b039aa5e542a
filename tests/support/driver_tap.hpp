// SPDX-License-Identifier: Apache-2.0
// The simulated driver with an interceptor on every function: a test can refuse single calls, hide
// a function, or run an action just before or after a call, as if another thread had run in
// between. One tap at a time; it outlives every Driver that was created from its source().
#pragma once

#include <cuda.h>

#include <array>
#include <cstring>
#include <functional>
#include <mutex>
#include <optional>
#include <set>
#include <utility>

#include <doctest/doctest.h>

#include "driver/driver_source.hpp"
#include "driver/driver_table.hpp"
#include "sim/functions.hpp"

namespace berth::test {

class DriverTap {
 public:
  DriverTap() {
    REQUIRE(current_ == nullptr);
    current_ = this;
  }
  ~DriverTap() { current_ = nullptr; }
  DriverTap(const DriverTap&) = delete;
  DriverTap& operator=(const DriverTap&) = delete;

  [[nodiscard]] DriverSource source() const {
    return {.name = "sim",
            .resolve = [this](const char* symbol, int) { return find(symbol); },
            .problem = {},
            .library = {}};
  }

  /// Drivers created from now on lack `call`.
  void hide(DriverCall call) { hidden_.insert(call); }

  /// The nth call from now on, 1 being the next, returns `result` without effect.
  void refuse(DriverCall call, CUresult result, int nth = 1) {
    const std::lock_guard lock(mutex_);
    plans_[std::size_t(call)].refuse_in = nth;
    plans_[std::size_t(call)].result = result;
  }
  /// Every call from now on is refused, until allow().
  void refuse_all(DriverCall call, CUresult result) {
    const std::lock_guard lock(mutex_);
    plans_[std::size_t(call)].refuses_all = true;
    plans_[std::size_t(call)].result = result;
  }
  void allow(DriverCall call) {
    const std::lock_guard lock(mutex_);
    plans_[std::size_t(call)] = {};
  }
  /// Runs `action`, once, on the calling thread just before, or just after, the next call.
  void before(DriverCall call, std::function<void()> action) {
    const std::lock_guard lock(mutex_);
    plans_[std::size_t(call)].before = std::move(action);
  }
  void after(DriverCall call, std::function<void()> action) {
    const std::lock_guard lock(mutex_);
    plans_[std::size_t(call)].after = std::move(action);
  }

 private:
  struct Plan {
    int refuse_in = 0;
    bool refuses_all = false;
    CUresult result = CUDA_SUCCESS;
    std::function<void()> before;
    std::function<void()> after;
  };

  template <DriverCall call, class Function>
  struct Tapped;
  template <DriverCall call, class... Args>
  struct Tapped<call, CUresult (*)(Args...)> {
    static inline CUresult (*simulated)(Args...) = nullptr;
    static CUresult run(Args... args) {
      const std::optional<CUresult> refusal = current_->enter(call);
      const CUresult result = refusal                ? *refusal
                              : simulated == nullptr ? CUDA_ERROR_NOT_SUPPORTED
                                                     : simulated(args...);
      current_->run_once(call, &Plan::after);
      return result;
    }
  };

  std::optional<CUresult> enter(DriverCall call) {
    run_once(call, &Plan::before);
    const std::lock_guard lock(mutex_);
    Plan& plan = plans_[std::size_t(call)];
    if (plan.refuse_in > 0 && --plan.refuse_in == 0) return plan.result;
    return plan.refuses_all ? std::optional(plan.result) : std::nullopt;
  }
  void run_once(DriverCall call, std::function<void()> Plan::*when) {
    std::function<void()> action;
    {
      const std::lock_guard lock(mutex_);
      action = std::exchange(plans_[std::size_t(call)].*when, nullptr);
    }
    if (action) action();
  }

  template <DriverCall call, class Function>
  [[nodiscard]] void* tap(const char* symbol) const {
    using Tap = Tapped<call, Function>;
    Tap::simulated = reinterpret_cast<Function>(sim::resolve(symbol));
    return hidden_.count(call) == 1 ? nullptr : reinterpret_cast<void*>(&Tap::run);
  }
  [[nodiscard]] void* find(const char* symbol) const {
#define BERTH_TAP(member, name, version, need) \
  if (std::strcmp(symbol, #name) == 0) return tap<DriverCall::member, decltype(&::name)>(symbol);
    BERTH_DRIVER_FUNCTIONS(BERTH_TAP)
#undef BERTH_TAP
    return sim::resolve(symbol);
  }

  static inline DriverTap* current_ = nullptr;
  std::set<DriverCall> hidden_;
  std::mutex mutex_;
  std::array<Plan, kDriverCallCount> plans_;
};

}  // namespace berth::test
