// SPDX-License-Identifier: Apache-2.0
#include "memory/source/mapping_notices.hpp"

#include <exception>

#include "berth/error.hpp"

#include "base/format.hpp"
#include "stream/capture.hpp"

namespace berth {
namespace {

thread_local bool is_in_callback = false;

struct InCallback {
  InCallback() { is_in_callback = true; }
  ~InCallback() { is_in_callback = false; }
  InCallback(const InCallback&) = delete;
  InCallback& operator=(const InCallback&) = delete;
};

}  // namespace

bool MappingNotices::is_inside() {
  return is_in_callback;
}

void MappingNotices::require_outside(const char* function) {
  if (!is_in_callback) [[likely]]
    return;
  throw InvalidArgument(
      format_text("{} is called by on_map or on_unmap; accepted there: allocations from cached "
                  "memory, frees, record_stream(), record_use(), retire_stream(), owns(), find(), "
                  "properties(), counters(), set_limits() and set_on_pressure()",
                  function));
}

void MappingNotices::call(const MappingCallback& callback, const Range& range) const {
  const ContextScope scope(*context_);
  const RelaxedCapture relaxed(context_->driver());
  const InCallback in_callback;
  callback({.data = reinterpret_cast<void*>(range.address),
            .bytes = range.bytes,
            .piece_bytes = range.piece_bytes,
            .device = context_->device(),
            .is_alias = range.is_alias});
}

bool MappingNotices::call_or_report(const MappingCallback& callback, const Range& range,
                                    const char* name) const noexcept {
  try {
    call(callback, range);
    return true;
  } catch (const std::exception& error) {
    context_->driver().report(Severity::error, name, " has failed", error);
  } catch (...) {
    context_->driver().report(Severity::error, [&] {
      return format_text("{} has failed: it threw no std::exception", name);
    });
  }
  return false;
}

}  // namespace berth
