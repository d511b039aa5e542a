// SPDX-License-Identifier: Apache-2.0
#include "workloads/fluid_bound.hpp"

#include <algorithm>
#include <utility>

#include "base/check.hpp"
#include "sim/work/cost_model.hpp"
#include "workloads/busy_passes.hpp"

namespace berth::bench {

FluidBound::FluidBound(const BusyProgram& program, const BusyOptions& options)
    : program_(program),
      options_(options),
      end_ns_(program.streams),
      pending_(program.streams),
      slots_(slots_with_persistent(program)) {}

void FluidBound::step() {
  run_operations(*this, program_.operations);
  end_pass(*this, program_, pass_++);
  if (options_.sync && !end_ns_.empty()) now_ns_ = std::max(now_ns_, std::ranges::max(end_ns_));
}

double FluidBound::waste() const {
  if (bytes_live_peak_ == 0) return 0;
  return static_cast<double>(bytes_reserved_) / static_cast<double>(bytes_live_peak_) - 1;
}

void FluidBound::launch(std::uint32_t stream) {
  if (options_.kernel_ns == 0) return;
  now_ns_ += launch_call_ns();
  end_ns_[stream] = std::max(end_ns_[stream], now_ns_) + options_.kernel_ns;
}

void FluidBound::add_pending(std::uint32_t stream, std::uint64_t end_ns, std::uint64_t bytes) {
  if (end_ns <= now_ns_) {
    bytes_done_ += bytes;
    return;
  }
  pending_[stream][end_ns] += bytes;
  bytes_pending_ += bytes;
}

void FluidBound::settle() {
  while (!used_.empty() && used_.begin()->first <= now_ns_) {
    const Used used = used_.begin()->second;
    used_.erase(used_.begin());
    bytes_pending_ -= used.bytes;
    add_pending(used.stream, used.own_end_ns, used.bytes);
  }
  for (PendingBytes& of_stream : pending_) {
    while (!of_stream.empty() && of_stream.begin()->first <= now_ns_) {
      bytes_done_ += of_stream.begin()->second;
      bytes_pending_ -= of_stream.begin()->second;
      of_stream.erase(of_stream.begin());
    }
  }
}

void FluidBound::allocate(std::uint32_t slot, std::uint64_t bytes, std::uint32_t stream) {
  settle();
  slots_[slot] = bytes;
  bytes_live_ += bytes;
  PendingBytes& own = pending_[stream];
  // The memory that was freed last would be useful to others last.
  while (bytes > 0 && !own.empty()) {
    const auto last = std::prev(own.end());
    const std::uint64_t taken = std::min(bytes, last->second);
    bytes -= taken;
    bytes_pending_ -= taken;
    last->second -= taken;
    if (last->second == 0) own.erase(last);
  }
  const std::uint64_t taken = std::min(bytes, bytes_done_);
  bytes_done_ -= taken;
  bytes_reserved_ += bytes - taken;
  bytes_live_peak_ = std::max(bytes_live_peak_, bytes_live_);
  bytes_used_peak_ = std::max(bytes_used_peak_, bytes_live_ + bytes_pending_);
  BERTH_CHECK(bytes_live_ + bytes_pending_ + bytes_done_ == bytes_reserved_);
  launch(stream);
}

void FluidBound::wait(std::uint32_t stream, std::uint32_t other) {
  if (options_.kernel_ns == 0) return;
  now_ns_ += sim::call_ns(sim::Function::k_cuEventRecord) +
             sim::call_ns(sim::Function::k_cuStreamWaitEvent);
  end_ns_[stream] = std::max(end_ns_[stream], end_ns_[other]);
}

void FluidBound::free(std::uint32_t slot, std::uint32_t stream, std::uint32_t user) {
  const std::uint64_t bytes = std::exchange(slots_[slot], 0);
  const bool is_used = user != BusyOperation::kNone;
  if (is_used && user != stream && options_.dependencies) wait(user, stream);
  if (is_used) launch(user);
  bytes_live_ -= bytes;
  if (is_used && user != stream && end_ns_[user] > now_ns_) {
    used_.emplace(end_ns_[user], Used{stream, end_ns_[stream], bytes});
    bytes_pending_ += bytes;
  } else {
    add_pending(stream, end_ns_[stream], bytes);
  }
}

void FluidBound::move(std::uint32_t from, std::uint32_t to) {
  slots_[to] = std::exchange(slots_[from], 0);
}

}  // namespace berth::bench
