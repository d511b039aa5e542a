// SPDX-License-Identifier: Apache-2.0
#include "device/visible_variables.hpp"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <variant>
#include <vector>

#include "base/env.hpp"
#include "base/quoted.hpp"

namespace berth {
namespace {

struct Maker {
  std::string_view word;  ///< in the name of a type, or of a backend
  std::vector<const char*> variables;
};

const std::vector<Maker>& makers() {
  static const std::vector<Maker> all = {
      // libtpu; TPU_VISIBLE_DEVICES is the former name of TPU_VISIBLE_CHIPS.
      {"tpu",
       {"TPU_VISIBLE_CHIPS", "TPU_VISIBLE_DEVICES", "TPU_PROCESS_BOUNDS",
        "TPU_CHIPS_PER_PROCESS_BOUNDS"}},
      {"neuron", {"NEURON_RT_VISIBLE_CORES", "NEURON_RT_NUM_CORES"}},
      {"rocm", {"ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"}},
      {"oneapi", {"ZE_AFFINITY_MASK", "ONEAPI_DEVICE_SELECTOR"}},
      {"ascend", {"ASCEND_RT_VISIBLE_DEVICES"}},
      {"cuda", {"CUDA_VISIBLE_DEVICES"}},
  };
  return all;
}

/// Whether a name has the word, beside which there is no letter: "tpu7x", but not "output".
bool has_word(std::string_view name, std::string_view word) {
  const auto is_letter = [&](std::size_t at) {
    return at < name.size() && std::isalpha(static_cast<unsigned char>(name[at])) != 0;
  };
  const auto is_same = [](unsigned char a, char b) { return char(std::tolower(a)) == b; };
  for (auto from = name.begin();; ++from) {
    from = std::search(from, name.end(), word.begin(), word.end(), is_same);
    if (from == name.end()) return false;
    const auto begin = static_cast<std::size_t>(from - name.begin());
    if ((begin == 0 || !is_letter(begin - 1)) && !is_letter(begin + word.size())) return true;
  }
}

}  // namespace

std::vector<DeviceAttribute> visible_variables(std::string_view type, std::string_view backend) {
  std::vector<DeviceAttribute> set;
  for (const Maker& maker : makers()) {
    if (!has_word(type, maker.word) && !has_word(backend, maker.word)) continue;
    for (const char* const name : maker.variables)
      if (const auto value = env(name)) set.push_back({name, on_one_line(*value)});
  }
  return set;
}

bool is_tpu(std::string_view type, std::string_view backend) {
  return has_word(type, "tpu") || has_word(backend, "tpu");
}

std::string variable_text(const DeviceAttribute& variable) {
  return variable.name + "=" + quoted(std::string_view(std::get<std::string>(variable.value)));
}

}  // namespace berth
