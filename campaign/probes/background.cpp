// SPDX-License-Identifier: Apache-2.0
#include "probes/background.hpp"

#include <algorithm>
#include <thread>

namespace berth::campaign {
namespace {

using namespace std::chrono_literals;

constexpr auto kKernel = 20ms;       ///< at least half of it remains when a call begins
constexpr auto kHostFunction = 1ms;  ///< during which a simulated driver may delay the host
constexpr auto kLaunch = 1ms;        ///< until the first kernel runs for certain

}  // namespace

Json Series::to_json() const {
  Json values = spread(durations_ns);
  if (outlasted > 0) values["outlasted_the_kernel"] = outlasted;
  return values;
}

Background::Background(const Machine& machine, const Kernels& kernels, bool is_busy)
    : driver_(machine.driver()),
      kernels_(kernels),
      length_(kernels.are_real() ? kKernel : kHostFunction),
      is_busy_(is_busy) {
  driver_.stream_create_with_priority(&stream_, unsigned{CU_STREAM_NON_BLOCKING}, 0);
  if (keep_busy()) std::this_thread::sleep_for(kLaunch);
}

Background::~Background() {
  driver_.try_stream_synchronize(stream_);
  driver_.try_stream_destroy(stream_);
}

std::string Background::name() const {
  if (!is_busy_) return "idle";
  return kernels_.are_real() ? "a kernel runs" : "a host function runs";
}

bool Background::is_running_now() const {
  return driver_.try_stream_query(stream_) == CUDA_ERROR_NOT_READY;
}

// A kernel ends length_ after it has begun, which is not before it was launched: until_ is no later
// than the end of the last one.
bool Background::keep_busy() {
  if (!is_busy_) return false;
  const auto now = std::chrono::steady_clock::now();
  if (now + length_ / 2 > until_) {
    kernels_.spin(stream_, length_);
    until_ = std::max(now, until_) + length_;
  }
  return is_running_now();
}

}  // namespace berth::campaign
