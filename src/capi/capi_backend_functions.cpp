// SPDX-License-Identifier: Apache-2.0
// A backend of functions in C as a DeviceBackend.
#include <cstddef>
#include <cstdint>
#include <exception>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "berth/backend_functions.h"

#include "base/check.hpp"
#include "base/format.hpp"
#include "base/quoted.hpp"
#include "capi/capi_convert.hpp"
#include "capi/capi_error.hpp"

using namespace berth;
using namespace berth::capi;

struct berth_backend_operation {
  DeviceBackend::Done done;
};

namespace {

constexpr std::uint64_t kNotReported = std::numeric_limits<std::uint64_t>::max();

std::optional<std::uint64_t> known(std::uint64_t value) {
  return value == kNotReported ? std::nullopt : std::optional(value);
}

/// `name`: of the names, for the error. Null: none.
std::vector<DeviceAttribute> to_attributes(const berth_backend_attribute* from, std::size_t count,
                                           const char* name) {
  std::vector<DeviceAttribute> attributes;
  for (std::size_t i = 0; from != nullptr && i < count; ++i) {
    DeviceAttribute& added = attributes.emplace_back();
    added.name = on_one_line(&require(from[i].name, name));
    if (from[i].text != nullptr)
      added.value = std::string(from[i].text);
    else
      added.value = from[i].integer;
  }
  return attributes;
}

/// A function of the program may return any number.
std::string name_of(berth_status status) {
  const std::string name = berth_status_name(status);
  return name.starts_with("BERTH_") ? name : format_text("{} {}", name, static_cast<int>(status));
}

[[noreturn]] void throw_failure(berth_status status, const std::string& what, const char* message) {
  const bool has_reason = message != nullptr && *message != '\0';
  const std::string text =
      format_text("{} failed with {}{}{}", what, name_of(status), has_reason ? ": " : "",
                  has_reason ? on_one_line(message) : std::string());
  switch (status) {
    case BERTH_INVALID_ARGUMENT:
      throw InvalidArgument(text);
    case BERTH_OUT_OF_MEMORY:
      throw OutOfMemory(text);
    case BERTH_NOT_SUPPORTED:
      throw NotSupported(text);
    case BERTH_CANCELLED:
      throw Cancelled(text);
    default:
      throw BackendError(text, status);
  }
}

/// The functions that berth_backend_register() has checked.
struct Functions : berth_backend_functions {
  std::string name_text;
  std::string type;

  /// Calls a function that has a status. `call` is its name, for the error.
  template <class Function, class... Args>
  void call(const char* call, Function* function, Args... args) const {
    const std::uint64_t failures = failure_count();
    const berth_status status = function(user, args...);
    if (status == BERTH_OK) return;
    throw_failure(status, format_text("{} ({}): {}()", type, name_text, call),
                  failure_count() == failures ? nullptr : berth_last_error_message());
  }

  /// The same for a function that starts an operation, and owns it from then on.
  template <class Start>
  static void start(DeviceBackend::Done done, const Start& start) {
    auto operation = std::make_unique<berth_backend_operation>();
    operation->done = std::move(done);
    start(operation.get());
    static_cast<void>(operation.release());
  }
};

struct CBuffer final : DeviceBackend::Buffer {
  explicit CBuffer(const Functions& functions_) : functions(functions_) {}
  ~CBuffer() override {
    if (native != nullptr) functions.free_buffer(functions.user, native);
  }

  const Functions& functions;
  void* native = nullptr;
};

/// The result of a function that may have given nothing.
std::unique_ptr<DeviceBackend::Buffer> given(std::unique_ptr<CBuffer> buffer) {
  if (buffer->native == nullptr) return nullptr;
  return buffer;
}

struct CFilling final : DeviceBackend::Filling {
  CFilling(const Functions& functions_, std::size_t bytes_)
      : functions(functions_), bytes(bytes_), bytes_left(bytes_) {}
  ~CFilling() override {
    if (native != nullptr) functions.free_filling(functions.user, native);
  }
  void write(std::size_t offset, std::span<const std::byte> content, bool is_last,
             DeviceBackend::Done done) override {
    BERTH_CHECK(offset <= bytes && content.size() <= bytes - offset);
    BERTH_CHECK(content.size() <= bytes_left && is_last == (content.size() == bytes_left));
    bytes_left -= content.size();
    Functions::start(std::move(done), [&](berth_backend_operation* operation) {
      functions.call("write", functions.write, native, offset,
                     static_cast<const void*>(content.data()), content.size(), is_last ? 1 : 0,
                     operation);
    });
  }

  const Functions& functions;
  const std::size_t bytes;
  std::size_t bytes_left;  ///< of the buffer, in parts that have not been written
  void* native = nullptr;
};

class CBackend final : public DeviceBackend {
 public:
  explicit CBackend(Functions functions) : functions_(std::move(functions)) {}
  ~CBackend() override {
    if (is_owner_ && functions_.destroy != nullptr) functions_.destroy(functions_.user);
  }

  /// From here on the end of this calls destroy().
  void own() noexcept { is_owner_ = true; }

  [[nodiscard]] std::string name() const override { return functions_.name_text; }
  [[nodiscard]] std::vector<DeviceAttribute> attributes() const override {
    if (functions_.get_attributes == nullptr) return {};
    const berth_backend_attribute* attributes = nullptr;
    std::size_t count = 0;
    functions_.call("get_attributes", functions_.get_attributes, &attributes, &count);
    return to_attributes(attributes, count, "attributes[].name");
  }
  [[nodiscard]] int count() const override { return static_cast<int>(functions_.count); }

  [[nodiscard]] DeviceDescription describe(int index) const override {
    berth_backend_description from{.struct_size = sizeof from,
                                   .name = nullptr,
                                   .kind = nullptr,
                                   .memory_bytes = kNotReported,
                                   .attributes = nullptr,
                                   .attribute_count = 0};
    if (functions_.describe != nullptr)
      functions_.call("describe", functions_.describe, checked(index), &from);
    DeviceDescription description;
    if (from.name != nullptr) description.name = on_one_line(from.name);
    if (from.kind != nullptr) description.kind = on_one_line(from.kind);
    description.memory_bytes = known(from.memory_bytes);
    description.attributes =
        to_attributes(from.attributes, from.attribute_count, "description.attributes[].name");
    return description;
  }

  [[nodiscard]] BackendMemory memory(int index) const override {
    if (functions_.get_memory == nullptr) return {};
    berth_backend_memory from{.struct_size = sizeof from,
                              .bytes_used = kNotReported,
                              .bytes_used_peak = kNotReported,
                              .bytes_limit = kNotReported,
                              .bytes_reserved = kNotReported,
                              .bytes_reserved_peak = kNotReported,
                              .largest_free_block_bytes = kNotReported,
                              .allocations = kNotReported};
    functions_.call("get_memory", functions_.get_memory, checked(index), &from);
    return {.bytes_used = known(from.bytes_used),
            .bytes_used_peak = known(from.bytes_used_peak),
            .bytes_limit = known(from.bytes_limit),
            .bytes_reserved = known(from.bytes_reserved),
            .bytes_reserved_peak = known(from.bytes_reserved_peak),
            .largest_free_block_bytes = known(from.largest_free_block_bytes),
            .allocations = known(from.allocations)};
  }

  [[nodiscard]] std::unique_ptr<Buffer> create_buffer(int index, std::span<const std::byte> content,
                                                      Done done) override {
    return start_filling(std::move(done), [&](berth_backend_operation* operation, void** native) {
      functions_.call("create_buffer", functions_.create_buffer, checked(index),
                      static_cast<const void*>(content.data()), content.size(), operation, native);
    });
  }

  [[nodiscard]] Begun begin_buffer(int index, std::size_t bytes) override {
    if (functions_.begin_buffer == nullptr) return {};
    auto buffer = std::make_unique<CBuffer>(functions_);
    auto filling = std::make_unique<CFilling>(functions_, bytes);
    void* native = nullptr;
    void* native_filling = nullptr;
    functions_.call("begin_buffer", functions_.begin_buffer, checked(index), bytes, &native,
                    &native_filling);
    buffer->native = native;
    filling->native = native_filling;
    if (native_filling == nullptr) return {};
    return {given(std::move(buffer)), std::move(filling)};
  }

  void read(const Buffer& source, std::size_t offset, std::span<std::byte> target,
            Done done) override {
    Functions::start(std::move(done), [&](berth_backend_operation* operation) {
      functions_.call("read", functions_.read, native_of(source), offset,
                      static_cast<void*>(target.data()), target.size(), operation);
    });
  }

  [[nodiscard]] bool reads_parts() const override {
    return functions_.reads_parts == nullptr || functions_.reads_parts(functions_.user) != 0;
  }

  [[nodiscard]] std::unique_ptr<Buffer> copy(const Buffer& source, int index, Done done) override {
    return start_filling(std::move(done), [&](berth_backend_operation* operation, void** native) {
      functions_.call("copy", functions_.copy, native_of(source), checked(index), operation,
                      native);
    });
  }

  [[nodiscard]] bool map_host_memory(std::span<std::byte> memory) override {
    if (functions_.map_host_memory == nullptr) return false;
    functions_.call("map_host_memory", functions_.map_host_memory,
                    static_cast<void*>(memory.data()), memory.size());
    return true;
  }
  void unmap_host_memory(std::byte* memory) override {
    functions_.call("unmap_host_memory", functions_.unmap_host_memory, static_cast<void*>(memory));
  }

 private:
  /// The functions have no device of another number.
  [[nodiscard]] int checked(int index) const {
    BERTH_CHECK(index >= 0 && index < functions_.count);
    return index;
  }
  /// The functions can read only their own buffers.
  [[nodiscard]] void* native_of(const Buffer& buffer) const {
    const auto& own = static_cast<const CBuffer&>(buffer);
    BERTH_CHECK(&own.functions == &functions_ && own.native != nullptr);
    return own.native;
  }
  /// `start(operation, native)` writes the new buffer, or throws: what it wrote is ignored then.
  template <class Start>
  [[nodiscard]] std::unique_ptr<Buffer> start_filling(Done done, const Start& start) const {
    auto buffer = std::make_unique<CBuffer>(functions_);
    void* native = nullptr;
    Functions::start(std::move(done),
                     [&](berth_backend_operation* operation) { start(operation, &native); });
    buffer->native = native;
    return given(std::move(buffer));
  }

  const Functions functions_;
  bool is_owner_ = false;
};

Functions to_functions(const berth_backend_functions& from, const char* type) {
  const auto need = [](bool is_there, const char* name) {
    if (!is_there) refuse_null(name);
  };
  need(from.name != nullptr, "functions.name");
  need(from.create_buffer != nullptr, "functions.create_buffer");
  need(from.read != nullptr, "functions.read");
  need(from.copy != nullptr, "functions.copy");
  need(from.free_buffer != nullptr, "functions.free_buffer");
  const bool has_parts = from.begin_buffer != nullptr;
  need(!has_parts || from.write != nullptr, "functions.write");
  need(!has_parts || from.free_filling != nullptr, "functions.free_filling");
  need(from.map_host_memory == nullptr || from.unmap_host_memory != nullptr,
       "functions.unmap_host_memory");
  if (from.count < 0 || from.count > std::numeric_limits<int>::max()) {
    throw InvalidArgument(
        format_text("\"functions.count\" is {}; accepted: a number of devices", from.count));
  }
  return {from, on_one_line(from.name), type};
}

}  // namespace

void berth_backend_operation_end(berth_backend_operation* operation, berth_status status,
                                 const char* message) {
  if (operation == nullptr) return;
  const std::unique_ptr<berth_backend_operation> ended(operation);
  if (status == BERTH_OK) return ended->done(nullptr);
  try {
    throw_failure(status, "an operation of the backend", message);
  } catch (...) {
    ended->done(std::current_exception());
  }
}

berth_status berth_backend_register(berth_runtime* runtime, const char* type,
                                    const berth_backend_functions* functions) {
  return guarded([&] {
    Runtime& owner = to_runtime(runtime);
    require(type, "type");
    auto backend =
        std::make_unique<CBackend>(to_functions(read_struct(functions, "functions"), type));
    CBackend* const registered = backend.get();
    owner.register_backend(type, std::move(backend));
    registered->own();
  });
}
