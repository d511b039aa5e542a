// SPDX-License-Identifier: Apache-2.0
// The simulated NVML with an interceptor on every function that berth uses: a test can make a
// function fail, or hide it. One tap at a time; it outlives every Nvml that was created from its
// source().
#pragma once

#include <cstring>
#include <map>
#include <set>
#include <string>

#include <doctest/doctest.h>

#include "driver/driver_source.hpp"
#include "driver/nvml_abi.hpp"
#include "sim/functions.hpp"

namespace berth::test {

class NvmlTap {
 public:
  NvmlTap() {
    REQUIRE(current_ == nullptr);
    current_ = this;
  }
  ~NvmlTap() { current_ = nullptr; }
  NvmlTap(const NvmlTap&) = delete;
  NvmlTap& operator=(const NvmlTap&) = delete;

  [[nodiscard]] DriverSource source() const {
    return {.name = "sim",
            .resolve = [this](const char* symbol, int) { return find(symbol); },
            .problem = {},
            .library = {}};
  }

  /// An Nvml that is created from now on lacks the function.
  void hide(const std::string& symbol) { hidden_.insert(symbol); }
  /// The function returns `code` without effect, until allow_all().
  void refuse(const std::string& symbol, nvml::Return code) { refusals_[symbol] = code; }
  void allow_all() { refusals_.clear(); }

 private:
  enum class Call {
#define BERTH_ENUMERATOR(member, symbol, type, need) member,
    BERTH_NVML_FUNCTIONS(BERTH_ENUMERATOR)
#undef BERTH_ENUMERATOR
  };

  template <Call call, class Function>
  struct Tapped;
  template <Call call, class... Args>
  struct Tapped<call, nvml::Return(Args...)> {
    static inline nvml::Return (*simulated)(Args...) = nullptr;
    static inline const char* name = nullptr;
    static nvml::Return run(Args... args) {
      const auto refusal = current_->refusals_.find(name);
      return refusal != current_->refusals_.end() ? refusal->second : simulated(args...);
    }
  };

  template <Call call, class Function>
  static void* tap(const char* symbol) {
    using Tap = Tapped<call, Function>;
    Tap::simulated = reinterpret_cast<Function*>(sim::resolve(symbol));
    Tap::name = symbol;
    return reinterpret_cast<void*>(&Tap::run);
  }
  [[nodiscard]] void* find(const char* symbol) const {
    if (hidden_.contains(symbol)) return nullptr;
#define BERTH_TAP(member, name, type, need) \
  if (std::strcmp(symbol, #name) == 0) return tap<Call::member, nvml::type>(symbol);
    BERTH_NVML_FUNCTIONS(BERTH_TAP)
#undef BERTH_TAP
    return nullptr;
  }

  static inline NvmlTap* current_ = nullptr;
  std::set<std::string> hidden_;
  std::map<std::string, nvml::Return> refusals_;
};

}  // namespace berth::test
