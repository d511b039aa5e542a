// SPDX-License-Identifier: Apache-2.0
#include "device/device_context.hpp"

#include "device/known_context.hpp"

namespace berth {

DeviceContext::~DeviceContext() {
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

void DeviceContext::add_observer(StreamObserver& observer) {
  driver_.require_here();
  observers_.add(observer);
}

void DeviceContext::remove_observer(StreamObserver& observer) noexcept {
  if (driver_.is_here()) observers_.remove(observer);
}

void DeviceContext::retire_stream(CUstream stream) noexcept {
  if (driver_.is_here()) observers_.tell(*this, stream);
  seen_captures_.note(stream, false);  // which ends with the stream
}

ContextScope::ContextScope(DeviceContext& context) : driver_(context.driver()) {
  enter(context);
}

ContextScope::ContextScope(DeviceContext& context, std::nothrow_t) noexcept
    : driver_(context.driver()) {
  try {
    enter(context);
  } catch (const Error& error) {
    driver_.report(Severity::error, "in a destructor", error);
  }
}

void ContextScope::enter(DeviceContext& context) {
  const CUcontext wanted = context.primary();
  CUcontext current = nullptr;
  driver_.ctx_get_current(&current);
  if (current == wanted) return;
  driver_.ctx_push_current(wanted);
  pushed_ = true;
  // What runs inside, as a callback of the program, may make guards.
  known_before_ = KnownContext::get();
  KnownContext::set(&context);
}

ContextScope::~ContextScope() {
  if (!pushed_) return;
  CUcontext popped = nullptr;
  if (driver_.ctx_pop_current_or_report(&popped))
    KnownContext::set(known_before_);
  else
    KnownContext::forget();
}

}  // namespace berth
