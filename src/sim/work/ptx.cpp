// SPDX-License-Identifier: Apache-2.0
#include "sim/work/ptx.hpp"

#include <algorithm>
#include <utility>

#include "sim/work/ptx_words.hpp"

namespace berth::sim {
namespace {

/// Reads up to the closing parenthesis.
std::vector<KernelParameter> read_parameters(PtxWords& words) {
  std::vector<KernelParameter> parameters;
  std::size_t element = 0;
  std::size_t count = 1;
  std::size_t alignment = 0;
  const auto add = [&] {
    if (element == 0) return;
    const std::size_t aligned = std::max<std::size_t>(alignment == 0 ? element : alignment, 1);
    const std::size_t end =
        parameters.empty() ? 0 : parameters.back().offset + parameters.back().bytes;
    parameters.push_back({(end + aligned - 1) / aligned * aligned, element * count});
    element = alignment = 0;
    count = 1;
  };
  for (std::string_view word = words.next(); !word.empty() && word != ")"; word = words.next()) {
    if (word == ",")
      add();
    else if (word == "[")
      count = number_of(words.next());
    else if (word == ".align" && element == 0)  // behind the type it is of what a pointer points to
      alignment = number_of(words.next());
    else if (const auto bytes = type_bytes(word))
      element = *bytes;
  }
  add();
  return parameters;
}

}  // namespace

std::vector<PtxKernel> read_kernels(std::string_view ptx) {
  std::vector<PtxKernel> kernels;
  PtxWords words(ptx);
  for (std::string_view word = words.next(); !word.empty(); word = words.next()) {
    if (word != ".entry") continue;
    PtxKernel kernel{std::string(words.next()), {}};
    PtxWords behind = words;
    if (behind.next() == "(") kernel.parameters = read_parameters(behind);
    const auto same = [&](const PtxKernel& known) { return known.name == kernel.name; };
    const bool is_name = !kernel.name.empty() && continues_word(kernel.name.front());
    if (is_name && std::none_of(kernels.begin(), kernels.end(), same))
      kernels.push_back(std::move(kernel));
  }
  return kernels;
}

}  // namespace berth::sim
