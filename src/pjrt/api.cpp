// SPDX-License-Identifier: Apache-2.0
#include "pjrt/api.hpp"

#include <dlfcn.h>
#include <map>
#include <memory>
#include <new>
#include <utility>

#include "berth/error.hpp"

#include "base/format.hpp"
#include "base/mutex.hpp"
#include "base/quoted.hpp"

namespace berth::pjrt {

/// The state of a call of Event_OnReady until the event is ready.
struct Api::Waiter {
  const Api& api;
  const char* function;
  Event* event;
  DeviceBackend::Done done;
};

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

void end(Api::Waiter* ended, Error* error) noexcept {
  const std::unique_ptr<Api::Waiter> waiter(ended);
  const Api& api = waiter->api;
  std::exception_ptr failure =
      error == nullptr ? nullptr : api.exception_of(waiter->function, error);
  api.destroy(event_destroy, {0, nullptr, waiter->event});
  waiter->done(std::move(failure));
}

}  // namespace

Api::Api(std::string path, const Table& table) : path_(std::move(path)), table_(&table) {}

const Api& Api::open(const std::string& path) {
  static Mutex mutex;
  static auto& opened = *new std::map<const Table*, std::unique_ptr<const Api>>;

  // dlopen() takes "" for the program itself.
  if (path.empty()) throw InvalidArgument("the path of a PJRT plug-in is empty; accepted: a file");
  // Never closed, because plug-ins have threads and exit handlers.
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    throw InvalidArgument(format_text("{} cannot be loaded as a PJRT plug-in: {}",
                                      on_one_line(path), on_one_line(dlerror())));
  }
  auto* const get_table = reinterpret_cast<GetTable*>(dlsym(library, "GetPjrtApi"));
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
  const MutexLock lock(mutex);
  std::unique_ptr<const Api>& known = opened[table];
  if (known == nullptr) {
    std::unique_ptr<const Api> added(new Api(on_one_line(path), *table));
    added->check();
    PluginInitializeArgs args{};
    added->call(plugin_initialize, args);  // once for each plug-in
    known = std::move(added);
  }
  return *known;
}

void Api::check() const {
  const Version& version = table_->version;
  if (version.major != kMajor || version.minor < kMinorMin) {
    throw NotSupported(format_text(
        "{} has version {}.{} of the PJRT API; accepted: major version {}, minor version {} and "
        "above",
        path_, version.major, version.minor, kMajor, kMinorMin));
  }
  for (const std::size_t slot : {kErrorDestroySlot, kErrorMessageSlot, kErrorCodeSlot}) {
    if (find(slot) == nullptr) refuse_missing("PJRT_Error_Destroy, _Message or _GetCode");
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

void Api::drop(Error* error) const noexcept {
  if (error == nullptr) return;
  ErrorDestroyArgs args{offsetof(ErrorDestroyArgs, error) + sizeof error, nullptr, error};
  reinterpret_cast<ErrorDestroy*>(const_cast<void*>(find(kErrorDestroySlot)))(&args);
}

Code Api::code_of(const Error* error) const {
  ErrorCodeArgs args{offsetof(ErrorCodeArgs, code) + sizeof(Code), nullptr, error, Code::unknown};
  auto* const get_code = reinterpret_cast<ErrorCode*>(const_cast<void*>(find(kErrorCodeSlot)));
  if (Error* second = get_code(&args)) {
    drop(second);
    return Code::unknown;
  }
  return args.code;
}

void Api::raise(const char* function, Error* error) const {
  struct Drop {
    const Api& api;
    Error* error;
    ~Drop() { api.drop(error); }
  } const drop_at_end{*this, error};
  ErrorMessageArgs args{offsetof(ErrorMessageArgs, message_bytes) + sizeof(std::size_t), nullptr,
                        error, nullptr, 0};
  reinterpret_cast<ErrorMessage*>(const_cast<void*>(find(kErrorMessageSlot)))(&args);
  const std::string_view message = args.message == nullptr
                                       ? std::string_view("no text")
                                       : std::string_view(args.message, args.message_bytes);
  raise_text(function, code_of(error), message);
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

void Api::when_ready(const char* function, Event* event, DeviceBackend::Done done) const noexcept {
  if (event != nullptr && !is_ready(event)) {
    // The callback may run before Event_OnReady returns.
    auto* const waiter = new (std::nothrow) Waiter{*this, function, event, {}};
    if (waiter != nullptr) {
      waiter->done = std::move(done);
      if (call_when_ready(waiter)) return;
      done = std::move(waiter->done);
      delete waiter;
    }
  }
  // Until the event is ready the operation uses host memory, so its end is awaited here.
  done(await(function, event));
}

bool Api::call_when_ready(Waiter* waiter) const noexcept {
  EventOnReadyArgs args{};
  args.event = waiter->event;
  args.callback = [](Error* error, void* user) { end(static_cast<Waiter*>(user), error); };
  args.user = waiter;
  try {
    Error* const error = try_call(event_on_ready, args);
    drop(error);
    return error == nullptr;
  } catch (const berth::Error&) {
    return false;
  }
}

bool Api::is_ready(Event* event) const noexcept {
  if (event == nullptr || !has(event_is_ready)) return false;
  EventIsReadyArgs args{};
  args.event = event;
  try {
    Error* const error = try_call(event_is_ready, args);
    drop(error);
    return error == nullptr && args.is_ready;
  } catch (const berth::Error&) {
    return false;
  }
}

std::exception_ptr Api::await(const char* function, Event* event) const noexcept {
  try {
    if (event == nullptr) raise_text(function, Code::internal, "the plug-in gave no event");
    EventArgs args{};
    args.event = event;
    Error* const error = try_call(event_await, args);
    destroy(event_destroy, {0, nullptr, event});
    if (error != nullptr) raise(function, error);
    return nullptr;
  } catch (...) {
    return std::current_exception();
  }
}

NamedValue to_named_value(const PjrtOption& option) {
  NamedValue named{};
  named.struct_size = offsetof(NamedValue, value_count) + sizeof named.value_count;
  named.name = option.name.data();
  named.name_bytes = option.name.size();
  named.value_count = 1;
  struct Write {
    NamedValue& to;
    void operator()(bool value) const {
      to.type = ValueType::boolean;
      to.boolean = value;
    }
    void operator()(std::int64_t value) const {
      to.type = ValueType::int64;
      to.int64 = value;
    }
    void operator()(float value) const {
      to.type = ValueType::float32;
      to.float32 = value;
    }
    void operator()(const std::string& value) const {
      to.type = ValueType::string;
      to.string = value.data();
      to.value_count = value.size();
    }
  };
  std::visit(Write{named}, option.value);
  return named;
}

DeviceAttribute to_attribute(const NamedValue& value) {
  DeviceAttribute attribute;
  attribute.name = on_one_line(std::string_view(value.name, value.name_bytes));
  switch (value.type) {
    case ValueType::string:
      attribute.value = std::string(value.string, value.value_count);
      return attribute;
    case ValueType::int64:
      attribute.value = value.int64;
      return attribute;
    case ValueType::int64_list:
      attribute.value =
          std::vector<std::int64_t>(value.int64_list, value.int64_list + value.value_count);
      return attribute;
    case ValueType::float32:
      attribute.value = static_cast<double>(value.float32);
      return attribute;
    case ValueType::boolean:
      attribute.value = value.boolean;
      return attribute;
  }
  throw NotSupported(format_text("attribute {} has a value of type {}, which berth does not know",
                                 attribute.name, static_cast<int>(value.type)));
}

}  // namespace berth::pjrt
