// SPDX-License-Identifier: Apache-2.0
// The only interface to CUDA: one driver's entry points, each with a call counter and with errors
// that have the driver's own names. No policy. Immutable after construction except for the
// counters, so safe from any thread. In a forked child no call reaches the driver, which does not
// work there: calls are refused, and the resources that berth would return belong to the parent.
//
// For each function of the list there are three ways to call it, here for cuMemAlloc:
//   try_mem_alloc(...)         returns the CUresult
//   mem_alloc(...)             throws DriverError, InvalidArgument never
//   mem_alloc_or_report(...)   for destructors: reports a failure to the sink, and returns false
#pragma once

#include <array>
#include <atomic>
#include <concepts>
#include <cstdint>
#include <exception>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "berth/error.hpp"
#include "berth/report.hpp"

#include "base/fork.hpp"
#include "base/reporter.hpp"
#include "driver/driver_source.hpp"
#include "driver/driver_table.hpp"

namespace berth {

/// The call by which the driver has refused to take back a resource; false: it has not refused.
struct DriverRefusal {
  DriverCall call{};
  CUresult code = CUDA_SUCCESS;
  explicit operator bool() const { return code != CUDA_SUCCESS; }
};

/// Threads  Safe from any thread.
class Driver {
 public:
  /// Takes the entry points from `source`, calls cuInit, and lists the devices. Never throws for a
  /// missing or failing driver: usable() is false then, and problem() has the reason.
  Driver(DriverSource source, ReportSink sink);
  Driver(const Driver&) = delete;
  Driver& operator=(const Driver&) = delete;

  [[nodiscard]] const std::string& name() const { return source_.name; }
  /// Whether the driver exists, is complete and initialized. Otherwise every call returns
  /// CUDA_ERROR_NOT_INITIALIZED without reaching a driver.
  [[nodiscard]] bool usable() const { return problem_.empty(); }
  /// One line; empty if usable().
  [[nodiscard]] const std::string& problem() const { return problem_; }
  /// The devices that the driver shows, by ordinal; none if not usable().
  [[nodiscard]] const std::vector<CUdevice>& devices() const { return devices_; }
  /// As cuDriverGetVersion counts: 12020 is CUDA 12.2. 0 if not usable().
  [[nodiscard]] int version() const { return version_; }
  /// Whether the driver has a function that the list calls optional.
  [[nodiscard]] bool has(DriverCall call) const { return present_[std::size_t(call)]; }
  /// A function that is not in the list, at the ABI of a CUDA version; null if the driver lacks
  /// it.
  [[nodiscard]] void* find(const char* symbol, int version) const {
    return source_.resolve ? source_.resolve(symbol, version) : nullptr;
  }

  /// False in a forked child. Check it before taking a lock: a lock that a thread of the parent
  /// held stays locked forever in the child.
  [[nodiscard]] bool is_here() const { return origin_.is_here(); }
  /// Errors  NotSupported: in a forked child.
  void require_here() const;

  /// Calls made so far, indexed by DriverCall.
  [[nodiscard]] std::array<std::uint64_t, kDriverCallCount> calls() const;

  /// Passes a warning or an error to the report sink; never throws. Without memory for the message
  /// the sink is told that one is lost.
  void report(Severity severity, std::string_view message) const noexcept;

  /// The same for an error that cannot be rethrown, with `what` before it; follows the exit rule.
  template <class E>
  void report(Severity severity, std::string_view what, const E& error) const noexcept {
    report(severity, what, {}, error);
  }
  /// The same with `who` before `what`. `error` is an Error or a std::exception.
  template <class E>
  void report(Severity severity, std::string_view who, std::string_view what,
              const E& error) const noexcept {
    report_failure(severity, who, what, error.what(), driver_code_of(error));
  }
  /// The same with the message that `make` returns, for which the host may have no memory.
  template <std::invocable Make>
  void report(Severity severity, const Make& make) const noexcept {
    reporter_.report(severity, [&] { return std::string(make()); });
  }

  /// "CUDA_ERROR_OUT_OF_MEMORY (2): out of memory".
  [[nodiscard]] std::string describe(CUresult result) const;
  /// Throws DriverError with the function's name and describe(result); in a forked child,
  /// NotSupported.
  [[noreturn]] void raise(DriverCall call, CUresult result) const;
  /// Whether a call succeeded; false for `refusal`, which the caller handles.
  /// Errors  As raise(), for any other result.
  [[nodiscard]] bool succeeded(DriverCall call, CUresult result, CUresult refusal) const {
    if (result == CUDA_SUCCESS) return true;
    if (result == refusal) return false;
    raise(call, result);
  }
  /// Reports a failure while a resource is returned.
  DriverRefusal reported(DriverCall call, CUresult result) const noexcept {
    return report_failure(call, result) ? DriverRefusal{} : DriverRefusal{call, result};
  }

#define BERTH_METHODS(member, symbol, version, need)                  \
  template <class... Args>                                            \
  CUresult try_##member(Args... args) const noexcept {                \
    return invoke(table_.member, DriverCall::member, args...);        \
  }                                                                   \
  template <class... Args>                                            \
  void member(Args... args) const {                                   \
    const CUresult result = try_##member(args...);                    \
    if (result != CUDA_SUCCESS) raise(DriverCall::member, result);    \
  }                                                                   \
  template <class... Args>                                            \
  bool member##_or_report(Args... args) const noexcept {              \
    return report_failure(DriverCall::member, try_##member(args...)); \
  }
  BERTH_DRIVER_FUNCTIONS(BERTH_METHODS)
#undef BERTH_METHODS

  // The functions of driver/sim_abi.hpp, such as sim_host_observes(word, value). On hardware, each
  // is one comparison. They are not driver calls: they are not counted and cannot fail.
#define BERTH_METHODS(member, symbol, type)                      \
  template <class... Args>                                       \
  auto sim_##member(Args... args) const noexcept {               \
    using Answer = decltype(sim_table_.member(args...));         \
    const bool told = sim_table_.member != nullptr && is_here(); \
    return told ? sim_table_.member(args...) : Answer();         \
  }
  BERTH_SIM_ONLY_FUNCTIONS(BERTH_METHODS)
#undef BERTH_METHODS

  /// Whether the driver has those functions.
  [[nodiscard]] bool is_simulated() const {
    return sim_table_.host_reuses != nullptr;
  }
  /// For code that may run after this object is destroyed; null for a driver on hardware.
  [[nodiscard]] sim_abi::HostReleases* sim_host_releases_function() const {
    return sim_table_.host_releases;
  }

 private:
  template <class Function, class... Args>
  CUresult invoke(Function function, DriverCall call, Args... args) const noexcept {
    if (function == nullptr)
      return usable() ? CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_NOT_INITIALIZED;
    if (!origin_.is_here()) return CUDA_ERROR_DEINITIALIZED;
    calls_[std::size_t(call)].fetch_add(1, std::memory_order_relaxed);
    return function(args...);
  }

  /// Fills table_. Returns the name of the first missing required function, or null.
  const char* load_table();
  /// Fills devices_. Returns the problem, or an empty text.
  std::string list_devices();
  /// The exit rule: while the process exits, the driver may shut down before berth's owners are
  /// destroyed, and returns CUDA_ERROR_DEINITIALIZED. Their resources are freed with it, so that
  /// result is not a failure. All other failures are reported.
  bool report_failure(DriverCall call, CUresult result) const noexcept;
  void report_failure(Severity severity, std::string_view who, std::string_view what,
                      const char* message, int driver_code) const noexcept;
  template <class E>
  static int driver_code_of(const E& error) noexcept {
    if constexpr (std::is_base_of_v<Error, E>) {
      return error.driver_code();
    } else {
      const auto* const known = dynamic_cast<const Error*>(&error);
      return known != nullptr ? known->driver_code() : 0;
    }
  }

  const ForkOrigin origin_;
  DriverSource source_;
  const Reporter reporter_;
  DriverTable table_;
  SimTable sim_table_;
  std::array<bool, kDriverCallCount> present_{};
  std::string problem_;
  std::vector<CUdevice> devices_;
  int version_ = 0;
  mutable std::array<std::atomic<std::uint64_t>, kDriverCallCount> calls_{};
};

}  // namespace berth
