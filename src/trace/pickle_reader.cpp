// SPDX-License-Identifier: Apache-2.0
#include "trace/pickle_reader.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/format.hpp"
#include "trace/pickle_input.hpp"
#include "trace/pickle_number.hpp"
#include "trace/pickle_opcode.hpp"
#include "trace/pickle_stack.hpp"

namespace berth {
namespace {

constexpr std::uint8_t kProtocolMax = 5;

/// The virtual machine that executes a pickle.
class PickleMachine {
 public:
  PickleMachine(const std::string& name, std::string_view content, PlainData& data,
                const PlainLimits& limits)
      : input_(name, content), data_(data), stack_(input_, data, limits) {}

  PlainValue run() {
    for (;;) {
      const std::uint8_t byte = input_.take_opcode();
      const auto opcode = static_cast<PickleOpcode>(byte);
      if (opcode == PickleOpcode::stop) return stack_.result();
      if (const auto value = read_value(opcode))
        stack_.push(*value);
      else if (!run_on_stack(opcode))
        input_.reject(describe_refused_opcode(byte));
    }
  }

 private:
  /// The value that the opcode pushes; nullopt for other opcodes.
  std::optional<PlainValue> read_value(PickleOpcode opcode) {
    switch (opcode) {
      case PickleOpcode::none:
        return PlainValue();
      case PickleOpcode::new_true:
        return PlainValue::boolean(true);
      case PickleOpcode::new_false:
        return PlainValue::boolean(false);
      case PickleOpcode::int_line:
        return input_.take_int_line();
      case PickleOpcode::bin_int:
        return PlainValue::integer(input_.take_number<std::int32_t>());
      case PickleOpcode::bin_int1:
        return PlainValue::integer(input_.take_number<std::uint8_t>());
      case PickleOpcode::bin_int2:
        return PlainValue::integer(input_.take_number<std::uint16_t>());
      case PickleOpcode::long_line:
        return input_.take_long_line();
      case PickleOpcode::long1:
        return parse_long_bytes(input_.take(input_.take_number<std::uint8_t>()));
      case PickleOpcode::long4:
        return parse_long_bytes(input_.take(input_.take_number<std::uint32_t>()));
      case PickleOpcode::float_line:
        return input_.take_float_line();
      case PickleOpcode::bin_float:
        return parse_float_bytes(input_.take(sizeof(double)));
      case PickleOpcode::unicode_line:
        return input_.take_unicode_line(data_);
      case PickleOpcode::short_bin_unicode:
        return PlainValue::text(input_.take(input_.take_number<std::uint8_t>()));
      case PickleOpcode::bin_unicode:
        return PlainValue::text(input_.take(input_.take_number<std::uint32_t>()));
      case PickleOpcode::bin_unicode8:
        return PlainValue::text(input_.take(input_.take_number<std::uint64_t>()));
      case PickleOpcode::short_bin_bytes:
        return PlainValue::bytes(input_.take(input_.take_number<std::uint8_t>()));
      case PickleOpcode::bin_bytes:
        return PlainValue::bytes(input_.take(input_.take_number<std::uint32_t>()));
      case PickleOpcode::bin_bytes8:
        return PlainValue::bytes(input_.take(input_.take_number<std::uint64_t>()));
      case PickleOpcode::empty_list:
        return data_.make(PlainKind::list);
      case PickleOpcode::empty_tuple:
        return data_.make(PlainKind::tuple);
      case PickleOpcode::empty_dict:
        return data_.make(PlainKind::dict);
      case PickleOpcode::get_line:
        return stack_.get(input_.take_index_line());
      case PickleOpcode::bin_get:
        return stack_.get(input_.take_number<std::uint8_t>());
      case PickleOpcode::long_bin_get:
        return stack_.get(input_.take_number<std::uint32_t>());
      default:
        return std::nullopt;
    }
  }

  /// Executes an opcode that works on the stack; false for an opcode that is not accepted.
  bool run_on_stack(PickleOpcode opcode) {
    switch (opcode) {
      case PickleOpcode::proto:
        check_protocol(input_.take_number<std::uint8_t>());
        return true;
      case PickleOpcode::frame:
        check_frame(input_.take_number<std::uint64_t>());
        return true;
      case PickleOpcode::mark:
        stack_.push_mark();
        return true;
      case PickleOpcode::list:
        stack_.wrap(PlainKind::list, stack_.pop_mark());
        return true;
      case PickleOpcode::tuple:
        stack_.wrap(PlainKind::tuple, stack_.pop_mark());
        return true;
      case PickleOpcode::dict:
        stack_.wrap(PlainKind::dict, stack_.pop_mark());
        return true;
      case PickleOpcode::tuple1:
        stack_.wrap(PlainKind::tuple, stack_.begin_of_last(1));
        return true;
      case PickleOpcode::tuple2:
        stack_.wrap(PlainKind::tuple, stack_.begin_of_last(2));
        return true;
      case PickleOpcode::tuple3:
        stack_.wrap(PlainKind::tuple, stack_.begin_of_last(3));
        return true;
      case PickleOpcode::append:
        stack_.append(PlainKind::list, stack_.begin_of_last(1));
        return true;
      case PickleOpcode::appends:
        stack_.append(PlainKind::list, stack_.pop_mark());
        return true;
      case PickleOpcode::set_item:
        stack_.append(PlainKind::dict, stack_.begin_of_last(2));
        return true;
      case PickleOpcode::set_items:
        stack_.append(PlainKind::dict, stack_.pop_mark());
        return true;
      case PickleOpcode::memoize:
        stack_.put_next();
        return true;
      case PickleOpcode::put_line:
        stack_.put(input_.take_index_line());
        return true;
      case PickleOpcode::bin_put:
        stack_.put(input_.take_number<std::uint8_t>());
        return true;
      case PickleOpcode::long_bin_put:
        stack_.put(input_.take_number<std::uint32_t>());
        return true;
      default:
        return false;
    }
  }

  void check_protocol(std::uint8_t protocol) const {
    if (protocol > kProtocolMax)
      input_.reject(
          format_text("protocol {}; the last that is known is {}", protocol, kProtocolMax));
  }

  /// Frames only state the amount to read at a time.
  void check_frame(std::uint64_t size) const {
    if (size > input_.bytes_left())
      input_.reject(format_text("cut off: a frame of {} bytes begins, {} are left", size,
                                input_.bytes_left()));
  }

  PickleInput input_;
  PlainData& data_;
  PickleStack stack_;
};

}  // namespace

PlainValue read_pickle(const std::string& name, std::string_view content, PlainData& data,
                       const PlainLimits& limits) {
  return PickleMachine(name, content, data, limits).run();
}

}  // namespace berth
