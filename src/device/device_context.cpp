// SPDX-License-Identifier: Apache-2.0
#include "device/device_context.hpp"

#include <optional>

#include "base/check.hpp"
#include "device/known_context.hpp"
#include "device/report_live.hpp"

namespace berth {

void DeviceContext::report_live_objects() const noexcept {
  report_live(driver_, device_, "streams of ", owned_streams_.count(), "Stream",
              "each Stream ends first");
  report_live(driver_, device_, "graphs of ", graphs_live_.load(), "Graph",
              "each Graph ends first");
}

DeviceContext::~DeviceContext() {
  if (driver_.is_here()) report_live_objects();
  // Each of berth's has been removed, otherwise it would be called after its end.
  BERTH_CHECK_USE(
      !driver_.is_here() ||
          (observers_.is_empty() && host_progress_.is_empty() && peer_access_.is_empty()),
      "an allocator, a Copier or a HandlePool of the program outlives the Runtime whose "
      "devices it uses");
  if (is_used()) driver_.primary_ctx_release_or_report(native_);
}

std::string DeviceContext::name_beside(const DeviceContext& expected) const {
  const bool is_other_runtimes = this != &expected && device_ == expected.device_;
  return device_.to_string() + (is_other_runtimes ? " of another Runtime" : "");
}

int DeviceContext::attribute(CUdevice_attribute attribute) const {
  int value = 0;
  driver_.device_get_attribute(&value, attribute, native_);
  return value;
}

const DeviceContext::HostReach& DeviceContext::host_reach() {
  return host_reach_.get(driver_, [this] {
    const auto query = [this](CUdevice_attribute attribute) -> std::optional<bool> {
      int value = 0;
      if (driver_.try_device_get_attribute(&value, attribute, native_) != CUDA_SUCCESS) return {};
      return value != 0;
    };
    const auto has = [&](CUdevice_attribute attribute) { return query(attribute).value_or(false); };
    const auto denies = [&](CUdevice_attribute attribute) {
      return !query(attribute).value_or(true);
    };
    // If the device uses page faults instead of the host's page tables, as on x86, a copy would
    // wait for each page.
    return HostReach{
        .has_pageable = has(CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS) &&
                        has(CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES),
        .shares_managed = has(CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS),
        // No attribute reports 32-bit operations alone: a device that supports neither the newer
        // nor the older operations has none.
        .has_memory_operations = !denies(CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS) ||
                                 !denies(CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_MEM_OPS_V1)};
  });
}

void DeviceContext::add_observer(StreamObserver& observer) {
  driver_.require_here();
  observers_.add(observer);
}

void DeviceContext::remove_observer(StreamObserver& observer) noexcept {
  if (driver_.is_here()) observers_.remove(observer);
}

void DeviceContext::retire_stream(CUstream stream) noexcept {
  if (driver_.is_here()) {
    observers_.call_each(
        [&](StreamObserver& observer) { observer.stream_retiring(*this, stream); });
  }
  seen_captures_.update(stream, false);  // which ends with the stream
}

ContextScope::ContextScope(DeviceContext& context) : driver_(context.driver()) {
  enter(context);
}

ContextScope::ContextScope(DeviceContext& context, std::nothrow_t) noexcept
    : driver_(context.driver()) {
  try {
    enter(context);
  } catch (const std::exception& error) {  // or a lack of memory for the message
    driver_.report(Severity::error, "a resource is returned without its context", error);
  }
}

void ContextScope::enter(DeviceContext& context) {
  const CUcontext wanted = context.primary();
  CUcontext current = nullptr;
  driver_.ctx_get_current(&current);
  KnownContext::set_observed(current);
  if (current == wanted) return;
  driver_.ctx_push_current(wanted);
  pushed_ = true;
  before_ = current;
  // Code inside the scope, such as a callback of the program, may create guards.
  known_before_ = KnownContext::get();
  KnownContext::set(&context);
}

ContextScope::~ContextScope() {
  if (!pushed_) return;
  CUcontext popped = nullptr;
  KnownContext::set_observed(before_);
  if (driver_.ctx_pop_current_or_report(&popped))
    KnownContext::set(known_before_);
  else
    KnownContext::forget();
}

}  // namespace berth
