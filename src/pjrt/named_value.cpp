// SPDX-License-Identifier: Apache-2.0
#include "pjrt/named_value.hpp"

#include <algorithm>
#include <cstring>
#include <string_view>
#include <variant>

#include "berth/error.hpp"

#include "base/format.hpp"
#include "base/quoted.hpp"

namespace berth::pjrt {
namespace {

/// A longer struct is taken for a wrong size.
constexpr std::size_t kValueBytesMax = 4096;
constexpr std::size_t kValueBytes =
    offsetof(NamedValue, value_count) + sizeof(NamedValue::value_count);

/// Refers to the option.
NamedValue to_named_value(const PjrtOption& option) {
  NamedValue named{};
  named.struct_size = kValueBytes;
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

}  // namespace

std::vector<NamedValue> to_named_values(const std::vector<PjrtOption>& options) {
  std::vector<NamedValue> values;
  for (const PjrtOption& option : options) values.push_back(to_named_value(option));
  return values;
}

std::vector<NamedValue> read_named_values(const Api& api, const char* function,
                                          const NamedValue* first, std::size_t count) {
  const std::span<const NamedValue> given = require_list(api, function, first, count);
  if (given.empty()) return {};
  // Each element says how long it is, which is the distance to the next one: a later version may
  // have more members. 0: the plug-in does not say.
  const std::size_t stride = first->struct_size == 0 ? sizeof(NamedValue) : first->struct_size;
  if (stride < kValueBytes || stride > kValueBytesMax) {
    refuse(api, function, format_text("an attribute with a struct of {} B", stride));
  }
  std::vector<NamedValue> values(count);
  const auto* const bytes = reinterpret_cast<const char*>(first);
  for (std::size_t i = 0; i < count; ++i)
    std::memcpy(&values[i], bytes + i * stride, sizeof(NamedValue));
  return values;
}

std::optional<DeviceAttribute> to_attribute(const Api& api, const char* function,
                                            const NamedValue& value) {
  DeviceAttribute attribute;
  attribute.name = on_one_line(require_text(api, function, value.name, value.name_bytes));
  switch (value.type) {
    case ValueType::string:
      attribute.value = std::string(require_text(api, function, value.string, value.value_count));
      return attribute;
    case ValueType::int64:
      attribute.value = value.int64;
      return attribute;
    case ValueType::int64_list: {
      const auto list = require_list(api, function, value.int64_list, value.value_count);
      attribute.value = std::vector<std::int64_t>(list.begin(), list.end());
      return attribute;
    }
    case ValueType::float32:
      attribute.value = static_cast<double>(value.float32);
      return attribute;
    case ValueType::boolean:
      attribute.value = value.boolean;
      return attribute;
  }
  return std::nullopt;
}

}  // namespace berth::pjrt
