// SPDX-License-Identifier: Apache-2.0
#include "capi/capi_error.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <new>
#include <pthread.h>
#include <string_view>

#include "berth/error.hpp"

#include "base/check.hpp"
#include "capi/capi_convert.hpp"

namespace berth::capi {
namespace {

constexpr std::string_view kCut = "...";
constexpr const char* kMessageLost =
    "the reason of this failure could not be kept: the process is short of host memory";

using Message = std::array<char, 1024>;

constinit std::atomic<bool> has_message_key = false;
constinit pthread_key_t message_key = 0;

/// The key of the threads' messages. Not in the static TLS block, which has little room for
/// libraries that are loaded later; and not a thread_local object, which would be destroyed before
/// others of its thread. The C library frees a message when its thread ends, so no thread runs code
/// of a library that has been unloaded.
struct MessageKey {
  MessageKey() { has_message_key = pthread_key_create(&message_key, std::free) == 0; }
  MessageKey(const MessageKey&) = delete;
  MessageKey& operator=(const MessageKey&) = delete;
  /// Called when the library is unloaded, or the process ends.
  ~MessageKey() {
    if (!has_message_key.exchange(false)) return;
    std::free(pthread_getspecific(message_key));
    pthread_key_delete(message_key);
  }
};

/// The calling thread's message; null if it has none.
Message* kept_message() noexcept {
  return has_message_key ? static_cast<Message*>(pthread_getspecific(message_key)) : nullptr;
}

/// The same, allocated once for all failures of a thread. Null if that fails.
Message* message_to_keep() noexcept {
  static const MessageKey key;
  if (Message* const message = kept_message()) return message;
  void* const allocated = has_message_key ? std::malloc(sizeof(Message)) : nullptr;
  if (allocated == nullptr) return nullptr;
  if (pthread_setspecific(message_key, allocated) == 0) return new (allocated) Message;
  std::free(allocated);
  return nullptr;
}

struct LastFailure {
  int driver_code = 0;
  bool is_message_lost = false;
  std::uint64_t count = 0;  ///< of all failures of the thread
};

constinit thread_local LastFailure last_failure;

berth_status keep(berth_status status, std::string_view message, int driver_code = 0) noexcept {
  BERTH_CHECK(status != BERTH_OK);
  Message* const kept = message_to_keep();
  last_failure = {driver_code, kept == nullptr, last_failure.count + 1};
  if (kept == nullptr) return status;
  const bool fits = message.size() < kept->size();
  std::size_t bytes = fits ? message.size() : kept->size() - 1 - kCut.size();
  // A cut never splits a character: it moves back to the first byte of that character.
  while (!fits && bytes > 0 && (static_cast<unsigned char>(message[bytes]) & 0xC0) == 0x80) --bytes;
  char* end = std::copy_n(message.data(), bytes, kept->data());
  if (!fits) end = std::copy(kCut.begin(), kCut.end(), end);
  BERTH_CHECK(end < kept->data() + kept->size());
  *end = '\0';
  return status;
}

berth_status status_of(Errc code) noexcept {
  switch (code) {
    case Errc::invalid_argument:
      return BERTH_INVALID_ARGUMENT;
    case Errc::out_of_memory:
      return BERTH_OUT_OF_MEMORY;
    case Errc::not_supported:
      return BERTH_NOT_SUPPORTED;
    case Errc::driver:
      return BERTH_DRIVER_ERROR;
    case Errc::exhausted:
      return BERTH_EXHAUSTED;
    case Errc::stream_captured:
      return BERTH_STREAM_CAPTURED;
    case Errc::cancelled:
      return BERTH_CANCELLED;
    case Errc::file:
      return BERTH_FILE;
    case Errc::backend:
      return BERTH_BACKEND_ERROR;
  }
  return BERTH_INTERNAL_ERROR;
}

}  // namespace

std::uint64_t failure_count() noexcept {
  return last_failure.count;
}

berth_status translate_exception() noexcept {
  try {
    throw;
  } catch (const Error& error) {
    return keep(status_of(error.code()), error.what(), error.driver_code());
  } catch (const CallbackFailed& failure) {
    return keep(BERTH_CALLBACK_FAILED, failure.what());
  } catch (const std::bad_alloc&) {
    return keep(BERTH_OUT_OF_MEMORY, "the process is out of host memory");
  } catch (const std::exception& error) {
    return keep(BERTH_INTERNAL_ERROR, error.what());
  } catch (...) {
    return keep(BERTH_INTERNAL_ERROR, "something other than a std::exception was thrown");
  }
}

}  // namespace berth::capi

const char* berth_status_name(berth_status status) {
  switch (status) {
    case BERTH_OK:
      return "BERTH_OK";
    case BERTH_INVALID_ARGUMENT:
      return "BERTH_INVALID_ARGUMENT";
    case BERTH_OUT_OF_MEMORY:
      return "BERTH_OUT_OF_MEMORY";
    case BERTH_NOT_SUPPORTED:
      return "BERTH_NOT_SUPPORTED";
    case BERTH_DRIVER_ERROR:
      return "BERTH_DRIVER_ERROR";
    case BERTH_STREAM_CAPTURED:
      return "BERTH_STREAM_CAPTURED";
    case BERTH_CANCELLED:
      return "BERTH_CANCELLED";
    case BERTH_FILE:
      return "BERTH_FILE";
    case BERTH_CALLBACK_FAILED:
      return "BERTH_CALLBACK_FAILED";
    case BERTH_BACKEND_ERROR:
      return "BERTH_BACKEND_ERROR";
    case BERTH_INTERNAL_ERROR:
      return "BERTH_INTERNAL_ERROR";
    case BERTH_EXHAUSTED:
      return "BERTH_EXHAUSTED";
    case BERTH_STATUS_INT_MAX_:
      break;
  }
  return "unknown berth_status";
}

const char* berth_last_error_message() {
  using namespace berth::capi;
  if (last_failure.is_message_lost) return kMessageLost;
  const Message* const kept = kept_message();
  return kept != nullptr ? kept->data() : "";
}

berth_status berth_last_error_set(berth_status status, const char* message) {
  using namespace berth;
  if (message != nullptr && status != BERTH_OK) return capi::keep(status, message);
  return capi::guarded([&] {
    if (message == nullptr) capi::refuse_null("message");
    throw InvalidArgument("\"status\" is BERTH_OK; accepted: the status of a failure");
  });
}

int berth_last_error_driver_code() {
  return berth::capi::last_failure.driver_code;
}

int berth_version() {
  return BERTH_VERSION;
}
