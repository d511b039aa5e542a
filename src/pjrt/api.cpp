// SPDX-License-Identifier: Apache-2.0
#include "pjrt/api.hpp"

#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

#include "berth/error.hpp"

#include "base/format.hpp"
#include "base/quoted.hpp"
#include "pjrt/library.hpp"
#include "pjrt/opened_plugins.hpp"

namespace berth::pjrt {

namespace {

const char* name_of(Code code) {
  switch (code) {
    case Code::ok:
      return "OK";
    case Code::cancelled:
      return "CANCELLED";
    case Code::unknown:
      return "UNKNOWN";
    case Code::invalid_argument:
      return "INVALID_ARGUMENT";
    case Code::deadline_exceeded:
      return "DEADLINE_EXCEEDED";
    case Code::not_found:
      return "NOT_FOUND";
    case Code::already_exists:
      return "ALREADY_EXISTS";
    case Code::permission_denied:
      return "PERMISSION_DENIED";
    case Code::resource_exhausted:
      return "RESOURCE_EXHAUSTED";
    case Code::failed_precondition:
      return "FAILED_PRECONDITION";
    case Code::aborted:
      return "ABORTED";
    case Code::out_of_range:
      return "OUT_OF_RANGE";
    case Code::unimplemented:
      return "UNIMPLEMENTED";
    case Code::internal:
      return "INTERNAL";
    case Code::unavailable:
      return "UNAVAILABLE";
    case Code::data_loss:
      return "DATA_LOSS";
    case Code::unauthenticated:
      return "UNAUTHENTICATED";
  }
  return "a code that berth does not know";
}

/// A longer text of an error is taken for a wrong size.
constexpr std::size_t kTextBytesMax = 1 << 20;
/// A larger table is taken for a wrong size.
constexpr std::size_t kTableBytesMax = 1 << 16;

}  // namespace

Api::Api(std::string path, const Table& table, std::size_t number)
    : path_(std::move(path)), table_(&table), number_(number) {}

const Api& Api::open(const std::string& path) {
  // dlopen() takes "" for the program itself.
  if (path.empty()) throw InvalidArgument("the path of a PJRT plug-in is empty; accepted: a file");
  Library library(path);
  auto* const get_table = reinterpret_cast<GetTable*>(library.find("GetPjrtApi"));
  if (get_table == nullptr) {
    throw InvalidArgument(format_text(
        "{} is no PJRT plug-in; accepted: a library that exports GetPjrtApi", on_one_line(path)));
  }
  const Table* const table = [&] {
    try {
      return get_table();
    } catch (...) {
      throw NotSupported(format_text("{}: GetPjrtApi() threw an exception", on_one_line(path)));
    }
  }();
  if (table == nullptr || table->struct_size < sizeof(Table)) {
    throw NotSupported(
        format_text("{}: GetPjrtApi() returned no table of functions", on_one_line(path)));
  }
  Api(on_one_line(path), *table, 0).check();
  OpenedPlugins& known = opened_plugins();
  std::size_t number = 0;
  if (const Api* const opened = known.find_or_begin(*table, number)) return *opened;
  library.keep();
  try {
    std::unique_ptr<const Api> added(new Api(on_one_line(path), *table, number));
    PluginInitializeArgs args{};
    added->call(plugin_initialize, args);  // once for each plug-in
    const Api& opened = *added;
    known.end(number, std::move(added));
    return opened;
  } catch (...) {
    known.end(number, nullptr);
    throw;
  }
}

const Api* Api::of_number(std::size_t number) {
  return opened_plugins().of_number(number);
}

void Api::check() const {
  const Version& version = table_->version;
  // Some plug-ins leave the size of the version at 0.
  if (table_->struct_size > kTableBytesMax ||
      (version.struct_size != 0 && version.struct_size < sizeof version)) {
    throw NotSupported(format_text(
        "{}: the table of functions has {} B and its version {} B; accepted: at most {} B, and at "
        "least {} B",
        path_, table_->struct_size, version.struct_size, kTableBytesMax, sizeof version));
  }
  if (version.major != kMajor || version.minor < kMinorMin) {
    throw NotSupported(format_text(
        "{} has version {}.{} of the PJRT API; accepted: major version {}, minor version {} and "
        "above",
        path_, version.major, version.minor, kMajor, kMinorMin));
  }
  for (const std::size_t slot : {kErrorDestroySlot, kErrorMessageSlot, kErrorCodeSlot}) {
    if (find(slot) == nullptr) refuse_missing("PJRT_Error_Destroy, _Message or _GetCode");
  }
  // Without them berth cannot know when the plug-in is done with memory of the program.
  for (const Function<EventArgs>* function : {&event_await, &event_destroy}) {
    if (!has(*function)) refuse_missing(function->name);
  }
}

void Api::require_single_ends() const {
  if (!has_ended_twice_) return;
  throw BackendError(
      format_text("{}: the plug-in has called back twice for one event, so its reports do not say "
                  "when it is done with memory; no operation is started from then on",
                  path_),
      static_cast<int>(Code::internal));
}

Error* Api::try_call(const ArgsCall& function, void* args) const {
  if (function.address == nullptr) refuse_missing(function.name);
  const std::size_t given = sizes_.of(function);
  Error* const error = call_once(function, args, given);
  if (error == nullptr || code_of(error) != Code::invalid_argument) return error;
  const std::optional<std::size_t> wanted =
      size_after_refusal(function, text_of(error), given, is_newer());
  if (!wanted) return error;
  Error* second = nullptr;
  try {
    second = call_once(function, args, *wanted);
  } catch (...) {
    drop(error);
    throw;
  }
  if (second != nullptr && text_of(second) == text_of(error)) {  // it was not about the size
    drop(second);
    return error;
  }
  sizes_.learn(function, *wanted);
  drop(error);
  return second;
}

Error* Api::call_once(const ArgsCall& function, void* args, std::size_t bytes) const {
  try {
    return call_with_size(function, args, bytes);
  } catch (...) {  // C functions must not throw, but plug-ins in C++ may
    raise_thrown(function.name);
  }
}

void Api::refuse_missing(const char* function) const {
  throw NotSupported(format_text("{} (PJRT API {}.{}) does not have {}", path_,
                                 table_->version.major, table_->version.minor, function));
}

void Api::raise_thrown(const char* function) const {
  try {
    throw;
  } catch (const std::exception& thrown) {
    raise_text(function, Code::unknown, format_text("the plug-in threw \"{}\"", thrown.what()));
  } catch (...) {
    raise_text(function, Code::unknown, "the plug-in threw an exception");
  }
}

template <class Args, class Result>
Error* Api::call_of_errors(std::size_t slot, Args& args) const noexcept {
  const ArgsCall function = {.slot = slot,
                             .name = "PJRT_Error",
                             .address = find(slot),
                             .args_bytes = args.struct_size,
                             .needed_bytes = args.struct_size,
                             .invoke = [](const void* address, void* passed) -> Error* {
                               auto* const called =
                                   reinterpret_cast<Result (*)(Args*)>(const_cast<void*>(address));
                               if constexpr (std::is_void_v<Result>) {
                                 called(static_cast<Args*>(passed));
                                 return nullptr;
                               } else {
                                 return called(static_cast<Args*>(passed));
                               }
                             }};
  try {
    return call_with_size(function, &args, args.struct_size + (is_newer() ? kGrowthBytes : 0));
  } catch (...) {  // an error without text or code is an error still
    return nullptr;
  }
}

void Api::drop(Error* error) const noexcept {
  if (error == nullptr) return;
  ErrorDestroyArgs args{offsetof(ErrorDestroyArgs, error) + sizeof error, nullptr, error};
  static_cast<void>(call_of_errors<ErrorDestroyArgs, void>(kErrorDestroySlot, args));
}

Code Api::code_of(const Error* error) const noexcept {
  ErrorCodeArgs args{offsetof(ErrorCodeArgs, code) + sizeof(Code), nullptr, error, Code::unknown};
  if (Error* const second = call_of_errors<ErrorCodeArgs, Error*>(kErrorCodeSlot, args)) {
    drop(second);
    return Code::unknown;
  }
  return args.code;
}

std::string_view Api::text_of(const Error* error) const noexcept {
  ErrorMessageArgs args{offsetof(ErrorMessageArgs, message_bytes) + sizeof(std::size_t), nullptr,
                        error, nullptr, 0};
  static_cast<void>(call_of_errors<ErrorMessageArgs, void>(kErrorMessageSlot, args));
  if (args.message == nullptr || args.message_bytes > kTextBytesMax) return "no text";
  return {args.message, args.message_bytes};
}

void Api::raise(const char* function, Error* error) const {
  struct Drop {
    const Api& api;
    Error* error;
    ~Drop() { api.drop(error); }
  } const drop_at_end{*this, error};
  raise_text(function, code_of(error), text_of(error));
}

void Api::raise_text(const char* function, Code code, std::string_view message) const {
  const std::string text = format_text("{}: {} failed with {} ({}): {}", path_, function,
                                       name_of(code), static_cast<int>(code), on_one_line(message));
  const int number = static_cast<int>(code);
  switch (code) {
    case Code::resource_exhausted:
      throw OutOfMemory(text, number);
    case Code::unimplemented:
      throw NotSupported(text, number);
    case Code::cancelled:
      throw Cancelled(text);
    default:
      throw BackendError(text, number);
  }
}

std::exception_ptr Api::exception_of(const char* function, Error* error) const noexcept {
  try {
    raise(function, error);
  } catch (...) {
    return std::current_exception();
  }
}

}  // namespace berth::pjrt
