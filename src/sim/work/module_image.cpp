// SPDX-License-Identifier: Apache-2.0
#include "sim/work/module_image.hpp"

#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string_view>
#include <system_error>
#include <utility>

namespace berth::sim {

// A cubin or a fat binary begins with a number that no text has.
Image read_image(const void* image) {
  constexpr char elf[] =
      "\x7f"
      "ELF";
  constexpr char fat_binary[] = "\x50\xed\x55\xba";
  constexpr char wrapped_fat_binary[] = "\xb1\x43\x62\x46";
  const auto* const bytes = static_cast<const char*>(image);
  for (const char* const magic : {elf, fat_binary, wrapped_fat_binary})
    if (std::strncmp(bytes, magic, 4) == 0) return {};
  const std::string_view text(bytes);
  if (text.find(".version") == std::string_view::npos) return {.refusal = CUDA_ERROR_INVALID_IMAGE};
  std::vector<ModuleVariable> variables;
  for (PtxVariable& variable : read_variables(text)) variables.emplace_back(std::move(variable));
  return {.kernels = read_kernels(text), .variables = std::move(variables)};
}

Image read_image_file(const char* path) {
  std::ifstream file(path, std::ios::binary);
  std::error_code ignored;
  if (!file.is_open() || std::filesystem::is_directory(path, ignored))
    return {.refusal = CUDA_ERROR_FILE_NOT_FOUND};
  std::ostringstream content;
  content << file.rdbuf();  // what cannot be read ends it without an exception
  return read_image(content.str().c_str());
}

}  // namespace berth::sim
