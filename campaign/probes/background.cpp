// SPDX-License-Identifier: Apache-2.0
#include "probes/background.hpp"

#include <algorithm>

namespace berth::campaign {
namespace {

using namespace std::chrono_literals;

constexpr auto kKernel = 20ms;  ///< renewed before it ends

}  // namespace

Background::Background(const Machine& machine, const Kernels& kernels, bool is_busy)
    : driver_(machine.driver()), kernels_(kernels), is_busy_(is_busy) {
  driver_.stream_create_with_priority(&stream_, unsigned{CU_STREAM_NON_BLOCKING}, 0);
}

Background::~Background() {
  driver_.try_stream_synchronize(stream_);
  driver_.try_stream_destroy(stream_);
}

void Background::keep_busy() {
  const auto now = std::chrono::steady_clock::now();
  if (!is_busy_ || now < until_ - kKernel / 2) return;
  kernels_.spin(stream_, kKernel);
  until_ = std::max(now, until_) + kKernel;
}

}  // namespace berth::campaign
