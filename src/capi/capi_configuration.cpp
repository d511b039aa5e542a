// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <string_view>
#include <vector>

#include "base/format.hpp"
#include "base/text_list.hpp"
#include "capi/capi_convert.hpp"
#include "capi/capi_error.hpp"

using namespace berth;
using namespace berth::capi;

namespace {

/// The entries of `options` that have a value, and differ from those of `others`, if given.
std::string to_text(const RuntimeOptions& options, const RuntimeOptions* others) {
  const std::vector<ConfigurationEntry> entries = describe(options);
  const std::vector<ConfigurationEntry> defaults =
      others != nullptr ? describe(*others) : std::vector<ConfigurationEntry>();
  std::string text;
  for (std::size_t index = 0; index < entries.size(); ++index) {
    const auto& [key, value, accepted] = entries[index];
    if (value.empty() || (others != nullptr && value == defaults[index].value)) continue;
    text += format_text("{}{}={}", text.empty() ? "" : ", ", key, value);
  }
  return text;
}

}  // namespace

berth_status berth_runtime_get_configuration(berth_runtime* runtime, char** configuration) {
  return guarded([&] {
    const Runtime& owner = to_runtime(runtime);
    auto& out = require(configuration, "configuration");
    out = to_owned_text(to_text(owner.options(), nullptr));
  });
}

berth_status berth_configuration_from_pytorch(const char* text, char** configuration,
                                              char** remarks) {
  return guarded([&] {
    const std::string_view given = &require(text, "text");
    auto& configuration_out = require(configuration, "configuration");
    auto& remarks_out = require(remarks, "remarks");
    const RuntimeOptions defaults;
    const PytorchConfiguration read = configure_like_pytorch(defaults, given);
    OwnedText translated(to_owned_text(to_text(read.options, &defaults)));
    remarks_out = to_owned_text(join_texts(read.remarks, "\n"));
    configuration_out = translated.release();
  });
}
