// SPDX-License-Identifier: Apache-2.0
// Source: Cloud TPU documentation and libtpu: TPU_VISIBLE_CHIPS is a list of chips of the machine,
// and precedes its former name TPU_VISIBLE_DEVICES unless it is empty.
#include "device/backend_visibility.hpp"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <system_error>
#include <utility>
#include <variant>

#include "base/format.hpp"
#include "base/quoted.hpp"
#include "base/text_list.hpp"
#include "device/tpu_chips.hpp"
#include "device/visible_variables.hpp"

namespace berth {
namespace {

/// No machine has more chips; a larger number is no chip.
constexpr int kChipsMax = 1024;

std::optional<int> chip_number(std::string_view text) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool is_chip =
      error == std::errc() && end == text.data() + text.size() && number >= 0 && number < kChipsMax;
  return is_chip ? std::optional(number) : std::nullopt;
}

/// The attribute; nullopt: it is missing, or no number that a chip could have.
std::optional<int> number_of(const DeviceDescription& device, std::string_view name) {
  for (const DeviceAttribute& attribute : device.attributes) {
    const auto* const number = std::get_if<std::int64_t>(&attribute.value);
    if (attribute.name != name || number == nullptr) continue;
    return *number >= 0 && *number < kChipsMax ? std::optional(static_cast<int>(*number))
                                               : std::nullopt;
  }
  return std::nullopt;
}

/// The variable that selects chips; null: none is set.
const DeviceAttribute* selecting_variable(const BackendView& view) {
  for (const char* const name : {"TPU_VISIBLE_CHIPS", "TPU_VISIBLE_DEVICES"}) {
    const auto found = std::ranges::find(view.variables, name, &DeviceAttribute::name);
    if (found != view.variables.end() && !std::get<std::string>(found->value).empty())
      return &*found;
  }
  return nullptr;
}

std::vector<int> sorted_once(std::vector<int> numbers) {
  std::ranges::sort(numbers);
  numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
  return numbers;
}

bool are_counted_from_0(const std::vector<int>& sorted) {
  return sorted.empty() || (sorted.front() == 0 && sorted.size() == std::size_t(sorted.back()) + 1);
}

/// Whether the numbers of the devices can be those of chips of the machine: not where a chip has
/// several devices, and not where the numbers may be those of the list's entries.
bool may_be_chips(const BackendView& view) {
  std::vector<int> numbers;
  for (const DeviceDescription& device : view.devices) {
    if (number_of(device, "core_on_chip").value_or(0) > 0) return false;
    if (const auto number = number_of(device, "local_hardware_id")) numbers.push_back(*number);
  }
  if (view.chips > 0 && view.devices.size() > std::size_t(view.chips)) return false;
  const std::vector<int> sorted = sorted_once(numbers);
  if (sorted.size() < numbers.size()) return false;
  const DeviceAttribute* const variable = selecting_variable(view);
  if (variable == nullptr || sorted.empty() || !are_counted_from_0(sorted)) return true;
  const auto named = read_chips(std::get<std::string>(variable->value));
  return !named || sorted_once(*named) == sorted;
}

/// Writes the sentences of one view.
class Sentences {
 public:
  /// `has_chips`: they name chips.
  Sentences(const BackendView& view, bool has_chips) : view_(view), has_chips_(has_chips) {
    const DeviceAttribute* const selecting = has_chips ? selecting_variable(view) : nullptr;
    if (selecting != nullptr) {
      set_ = variable_text(*selecting);
      named_ = read_chips(std::get<std::string>(selecting->value));
    }
    for (const DeviceAttribute& variable : view.variables)
      if (&variable != selecting) others_ += "; " + variable_text(variable);
  }

  [[nodiscard]] std::string visible(int ordinal, std::optional<int> chip) const {
    const std::string claim = format_text("Visible as {}:{}: ", view_.type, ordinal);
    if (!has_chips_ || !chip) return claim + "the backend shows it" + others_;
    if (set_.empty()) {
      return claim +
             format_text("the backend shows chip {}, and TPU_VISIBLE_CHIPS is not set", *chip) +
             others_;
    }
    if (!named_) {
      return claim + format_text("the backend shows chip {}; {} is no list of chips", *chip, set_) +
             others_;
    }
    if (names(*chip)) return claim + format_text("{} names chip {}", set_, *chip) + others_;
    return claim +
           format_text("the backend shows chip {}, although {} does not name it", *chip, set_) +
           others_;
  }

  [[nodiscard]] std::string hidden(int chip) const {
    return format_text("Hidden: {}{}", why_hidden(chip), others_);
  }

  [[nodiscard]] const std::vector<int>& named() const {
    static const std::vector<int> none;
    return named_ ? *named_ : none;
  }

 private:
  [[nodiscard]] bool names(int chip) const { return std::ranges::count(named(), chip) > 0; }

  [[nodiscard]] std::string why_hidden(int chip) const {
    if (named_ && !names(chip)) return format_text("{} does not name chip {}", set_, chip);
    if (view_.fails) {
      return format_text("chip {} has no client, because the plug-in of {} cannot be used{}{}",
                         chip, view_.type, set_.empty() ? "" : "; ", set_);
    }
    if (named_) {
      const bool is_beyond = view_.chips > 0 && chip >= view_.chips;
      return format_text("{} names chip {}, which the {}", set_, chip,
                         is_beyond ? "machine does not have" : "backend does not show");
    }
    if (set_.empty()) {
      return format_text("the backend does not show chip {}, although TPU_VISIBLE_CHIPS is not set",
                         chip);
    }
    return format_text("the backend does not show chip {}; {} is no list of chips", chip, set_);
  }

  const BackendView& view_;
  const bool has_chips_;
  std::string set_;                        ///< the variable in effect and its text; empty: none
  std::optional<std::vector<int>> named_;  ///< the chips that it names
  std::string others_;                     ///< the other variables that are set
};

}  // namespace

std::optional<std::vector<int>> read_chips(std::string_view text) {
  std::vector<int> chips;
  for (const std::string_view entry : split(text, ',')) {
    const std::optional<int> chip = chip_number(trim(entry));
    if (!chip) return std::nullopt;
    chips.push_back(*chip);
  }
  return chips;
}

std::vector<DeviceExplanation> explain_view(const BackendView& view) {
  const bool has_chips = view.is_tpu && may_be_chips(view);
  const Sentences sentences(view, has_chips);
  std::vector<DeviceExplanation> explained;
  std::vector<int> shown;
  for (std::size_t index = 0; index < view.devices.size(); ++index) {
    const DeviceDescription& device = view.devices[index];
    const bool has_number = has_chips || !view.is_tpu;
    const auto chip = has_number ? number_of(device, "local_hardware_id") : std::nullopt;
    const int ordinal = static_cast<int>(index);
    if (chip) shown.push_back(*chip);
    explained.push_back(
        {ordinal, chip.value_or(-1), device.name, {}, {}, sentences.visible(ordinal, chip)});
  }
  // Devices without numbers are those of a topology, and say nothing about the machine.
  if (!has_chips || (shown.empty() && !view.devices.empty())) return explained;
  std::vector<int> hidden = sentences.named();
  for (int chip = 0; chip < view.chips; ++chip) hidden.push_back(chip);
  for (const int chip : sorted_once(std::move(hidden))) {
    if (std::ranges::count(shown, chip) > 0) continue;
    explained.push_back({std::nullopt, chip, {}, {}, {}, sentences.hidden(chip)});
  }
  return explained;
}

std::vector<DeviceExplanation> explain_backend(DeviceType type, const RegisteredBackend* backend,
                                               const std::string& problem) {
  if (backend == nullptr && problem.empty()) return {};
  BackendView view;
  view.type = type.name();
  view.is_tpu = is_tpu(type.name(), backend == nullptr ? std::string_view() : backend->name);
  view.fails = backend == nullptr;
  view.variables = backend == nullptr ? visible_variables(type.name(), {}) : backend->variables;
  if (backend != nullptr) view.devices = backend->devices;
  if (view.is_tpu) view.chips = count_tpu_chips("/sys/bus/pci/devices");
  return explain_view(view);
}

}  // namespace berth
