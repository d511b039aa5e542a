// SPDX-License-Identifier: Apache-2.0
#include "capi/capi_convert.hpp"

#include <cstdlib>
#include <new>

#include "base/counted.hpp"
#include "base/format.hpp"
#include "capi/capi_error.hpp"

namespace berth::capi {

void refuse_null(const char* parameter) {
  throw InvalidArgument(format_text("\"{}\" is null, which is not accepted", parameter));
}

void refuse_count(std::size_t count, std::size_t accepted, const char* parameter) {
  throw InvalidArgument(format_text("\"{}\" has {} elements{}; accepted: at most {}", parameter,
                                    count, negative_hint(count), accepted));
}

DeviceType to_device_type(int number, const char* parameter) {
  if (const auto type = DeviceType::from_number(number)) return *type;
  throw InvalidArgument(format_text(
      "\"{}\" has {} for a device type; accepted: BERTH_DEVICE_CPU ({}), "
      "BERTH_DEVICE_CUDA ({}), and results of berth_device_type_register(), all below {}",
      parameter, number, int{BERTH_DEVICE_CPU}, int{BERTH_DEVICE_CUDA}, DeviceType::count()));
}

Device to_device(berth_device device, const char* parameter) {
  const DeviceType type = to_device_type(device.type, parameter);
  const Device unnumbered = Device::of(type);
  if (device.ordinal == unnumbered.ordinal()) return unnumbered;
  if (device.ordinal >= 0 && type != DeviceType::cpu()) return Device::of(type, device.ordinal);
  throw InvalidArgument(
      format_text("\"{}\" has type {} ({}) and ordinal {}; accepted: {}", parameter, device.type,
                  type.name(), device.ordinal,
                  type == DeviceType::cpu() ? "0" : "0 and above, or -1 for the current device"));
}

berth_device from_device(Device device) noexcept {
  return {device.type().number(), device.ordinal()};
}

StreamRef to_stream(berth_stream stream, const char* parameter) {
  if (stream.context == nullptr) {
    throw InvalidArgument(format_text(
        "\"{}\" has no context; accepted: the result of a berth_stream_ function, such as "
        "berth_stream_from_native()",
        parameter));
  }
  return {*reinterpret_cast<DeviceContext*>(stream.context), stream.native};
}

StreamRef to_stream_at(berth_stream stream, const char* array, std::size_t index,
                       const char* member) {
  if (stream.context != nullptr) return to_stream(stream);
  return to_stream(stream, format_text("{}[{}]{}", array, index, member).c_str());
}

CopyStreams to_copy_streams(berth_stream target_stream, berth_stream source_stream) {
  const bool has_source = source_stream.context != nullptr;
  if (target_stream.context == nullptr && has_source) target_stream = source_stream;
  return {.target_stream = to_stream(target_stream, "target_stream"),
          .source_stream = to_stream(has_source ? source_stream : target_stream, "source_stream")};
}

berth_stream from_stream(StreamRef stream) noexcept {
  return {reinterpret_cast<berth_device_context*>(&stream.context()), stream.native()};
}

EventRef to_event(berth_event event, const char* parameter) {
  if (event.context == nullptr || event.native == nullptr) {
    throw InvalidArgument(format_text(
        "\"{}\" is not an event; accepted: the result of a berth_event_ function, such as "
        "berth_event_from_native()",
        parameter));
  }
  return {*reinterpret_cast<DeviceContext*>(event.context), event.native};
}

berth_event from_event(EventRef event) noexcept {
  return {reinterpret_cast<berth_device_context*>(&event.context()), event.native()};
}

CompletionQueue::Callback to_callback(berth_completion_function function, void* user) {
  return [function, user](const std::exception_ptr& failure) {
    if (!failure) return function(user, BERTH_OK, "");
    const berth_status status = guarded([&] { std::rethrow_exception(failure); });
    function(user, status, berth_last_error_message());
  };
}

void check_flags(std::uint64_t flags, std::uint64_t known, const char* parameter) {
  if ((flags & ~known) == 0) return;
  throw InvalidArgument(format_text("\"{}\" has the unknown bits {:#x}; accepted: those of {:#x}",
                                    parameter, flags & ~known, known));
}

char* to_owned_text(const std::string& text) {
  char* const owned = static_cast<char*>(std::malloc(text.size() + 1));
  if (owned == nullptr) throw std::bad_alloc();
  std::memcpy(owned, text.c_str(), text.size() + 1);
  return owned;
}

void check_struct_size(std::size_t given, std::size_t known, const char* parameter) {
  constexpr std::size_t step = alignof(std::size_t);
  if (given >= sizeof(std::size_t) && given <= known && given % step == 0) return;
  throw InvalidArgument(
      format_text("\"{}\" has struct_size {}; accepted: {} as its _INIT macro sets it, or a "
                  "smaller multiple of {} from an older header",
                  parameter, given, known, step));
}

}  // namespace berth::capi
