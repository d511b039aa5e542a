// SPDX-License-Identifier: Apache-2.0
// Conversion between the C ABI's types and berth's own. Input is checked here, and throws an
// InvalidArgument that names the parameter; the conversion of output cannot fail.
#pragma once

#include <cstddef>
#include <cstring>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

#include "berth/berth.h"
#include "berth/berth.hpp"

#include "base/check.hpp"
#include "capi/callback_gate.hpp"

/// The handle. The driver's description is kept because C text stays valid as long as the runtime.
struct berth_runtime {
  berth_runtime(berth::RuntimeOptions options, std::shared_ptr<berth::capi::CallbackGate> gate)
      : callbacks(std::move(gate)), runtime(std::move(options)) {}

  const std::shared_ptr<berth::capi::CallbackGate> callbacks;  ///< those in the options
  berth::Runtime runtime;
  berth::DriverInfo driver = runtime.driver();
};

namespace berth::capi {

[[noreturn]] void refuse_null(const char* parameter);

/// The target of `pointer`, which must not be null.
template <class T>
T& require(T* pointer, const char* parameter) {
  if (pointer == nullptr) refuse_null(parameter);
  return *pointer;
}

[[noreturn]] void refuse_count(std::size_t count, std::size_t accepted, const char* parameter);

/// The `count` elements of `array`, which may be null if there are none.
template <class T>
std::span<T> require_array(T* array, std::size_t count, const char* parameter) {
  constexpr std::size_t kCountMax = std::numeric_limits<std::ptrdiff_t>::max() / sizeof(T);
  if (count == 0) return {};
  if (count > kCountMax) refuse_count(count, kCountMax, parameter);
  return {&require(array, parameter), count};
}

inline Runtime& to_runtime(berth_runtime* runtime) {
  return require(runtime, "runtime").runtime;
}

DeviceType to_device_type(int number, const char* parameter);
Device to_device(berth_device device, const char* parameter = "device");
berth_device from_device(Device device) noexcept;

StreamRef to_stream(berth_stream stream, const char* parameter = "stream");
/// The same for an element of an array, or for a member of it, ".stream".
StreamRef to_stream_at(berth_stream stream, const char* array, std::size_t index,
                       const char* member = "");
/// If one side has no stream, that of the other side.
CopyStreams to_copy_streams(berth_stream target_stream, berth_stream source_stream);
berth_stream from_stream(StreamRef stream) noexcept;

EventRef to_event(berth_event event, const char* parameter = "event");
berth_event from_event(EventRef event) noexcept;

CompletionQueue::Callback to_callback(berth_completion_function function, void* user);

/// Refuses bits of `flags` outside of `known`.
void check_flags(std::uint64_t flags, std::uint64_t known, const char* parameter);

struct FreeText {
  void operator()(char* text) const noexcept { berth_string_free(text); }
};
using OwnedText = std::unique_ptr<char, FreeText>;

/// The text for a `char**` output, which berth_string_free() frees.
char* to_owned_text(const std::string& text);

void check_struct_size(std::size_t given, std::size_t known, const char* parameter);

/// The structs that grow at their end. Without padding, because a later field would otherwise use
/// bytes that an older program may not have set.
template <class T>
constexpr bool kGrows =
    std::is_trivially_copyable_v<T> &&
    sizeof(T) % alignof(std::size_t) == 0 && std::has_unique_object_representations_v<T>;

/// Reads an input struct; the fields that its writer did not know are zero.
template <class T>
T read_struct(const T* from, const char* parameter) {
  static_assert(kGrows<T>);
  const std::size_t bytes = require(from, parameter).struct_size;
  check_struct_size(bytes, sizeof(T), parameter);
  T known{};
  std::memcpy(&known, from, bytes);
  return known;
}

/// Checks an output struct before the call has any effect.
template <class T>
T& require_struct(T* to, const char* parameter) {
  check_struct_size(require(to, parameter).struct_size, sizeof(T), parameter);
  return *to;
}

/// Writes the fields that the caller knows.
template <class T>
void write_struct(T value, T& to) noexcept {
  static_assert(kGrows<T>);
  BERTH_CHECK(to.struct_size <= sizeof(T));  // as require_struct() has found it
  value.struct_size = to.struct_size;
  std::memcpy(&to, &value, to.struct_size);
}

}  // namespace berth::capi
