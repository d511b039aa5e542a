// SPDX-License-Identifier: Apache-2.0
#include "driver/driver.hpp"

#include "base/format.hpp"
#include "base/quoted.hpp"

namespace berth {

const char* Driver::load_table() {
  constexpr bool required = true;
  constexpr bool optional = false;
  const char* missing = nullptr;
#define BERTH_LOAD(member, symbol, version, need)                                               \
  table_.member = reinterpret_cast<decltype(table_.member)>(source_.resolve(#symbol, version)); \
  present_[std::size_t(DriverCall::member)] = table_.member != nullptr;                         \
  if (need && table_.member == nullptr && missing == nullptr) missing = #symbol;
  BERTH_DRIVER_FUNCTIONS(BERTH_LOAD)
#undef BERTH_LOAD
  // Not a function of NVIDIA's, so it has no version: the oldest.
#define BERTH_LOAD(member, symbol, type) \
  sim_table_.member = reinterpret_cast<sim_abi::type*>(source_.resolve(#symbol, 2000));
  BERTH_SIM_ONLY_FUNCTIONS(BERTH_LOAD)
#undef BERTH_LOAD
  return missing;
}

std::string Driver::list_devices() {
  const auto failed = [this](DriverCall call, CUresult result) {
    devices_.clear();
    return format_text("{} failed: {}", kDriverCallNames[std::size_t(call)], describe(result));
  };
  int count = 0;
  if (const CUresult result = try_device_get_count(&count); result != CUDA_SUCCESS)
    return failed(DriverCall::device_get_count, result);
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    CUdevice device = 0;
    if (const CUresult result = try_device_get(&device, ordinal); result != CUDA_SUCCESS)
      return failed(DriverCall::device_get, result);
    devices_.push_back(device);
  }
  return {};
}

Driver::Driver(DriverSource source, ReportSink sink)
    : source_(std::move(source)), reporter_(std::move(sink)) {
  if (!source_.resolve) {
    problem_ = source_.problem.empty() ? "no driver" : source_.problem;
    return;
  }
  if (const char* missing = load_table()) {
    problem_ = format_text("driver \"{}\" lacks {}, which berth needs", on_one_line(source_.name),
                           missing);
  } else if (const CUresult result = try_init(0U); result != CUDA_SUCCESS) {
    problem_ = format_text("cuInit failed: {}", describe(result));
    // No other cause is known: elsewhere it is the result of calls before cuInit.
    if (result == CUDA_ERROR_NOT_INITIALIZED) {
      problem_ += format_text(
          ". This process was forked from one that had initialized CUDA, and CUDA does not work in "
          "such a child. {}",
          kForkAdvice);
    }
  } else if (problem_ = list_devices(); problem_.empty()) {
    try_driver_get_version(&version_);
    return;
  }
  table_ = {};
  sim_table_ = {};
  present_ = {};
}

std::array<std::uint64_t, kDriverCallCount> Driver::calls() const {
  std::array<std::uint64_t, kDriverCallCount> counts{};
  for (std::size_t call = 0; call < kDriverCallCount; ++call) {
    counts[call] = calls_[call].load(std::memory_order_relaxed);
  }
  return counts;
}

void Driver::report(Severity severity, std::string_view message) const noexcept {
  reporter_.report(severity, [&] { return std::string(message); });
}

void Driver::report_failure(Severity severity, std::string_view who, std::string_view what,
                            const char* message, int driver_code) const noexcept {
  if (driver_code == CUDA_ERROR_DEINITIALIZED) return;
  if (!origin_.is_here()) return;
  report(severity, [&] { return format_text("{}{}: {}", who, what, message); });
}

void Driver::require_here() const {
  if (is_here()) return;
  origin_.require_here(format_text("driver \"{}\"", on_one_line(source_.name)));
}

std::string Driver::describe(CUresult result) const {
  const char* name = nullptr;
  const char* text = nullptr;
  if (table_.get_error_name != nullptr) table_.get_error_name(result, &name);
  if (table_.get_error_string != nullptr) table_.get_error_string(result, &text);
  return format_text("{} ({}): {}", name != nullptr ? name : "unknown CUresult",
                     static_cast<int>(result), text != nullptr ? text : "no description");
}

void Driver::raise(DriverCall call, CUresult result) const {
  require_here();
  throw DriverError(
      format_text("{} failed: {}", kDriverCallNames[std::size_t(call)], describe(result)), result);
}

bool Driver::report_failure(DriverCall call, CUresult result) const noexcept {
  if (result == CUDA_SUCCESS || result == CUDA_ERROR_DEINITIALIZED) return true;
  report(Severity::error, [&] {
    return format_text("{} failed while a resource was returned: {}",
                       kDriverCallNames[std::size_t(call)], describe(result));
  });
  return false;
}

}  // namespace berth
