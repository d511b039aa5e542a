// SPDX-License-Identifier: Apache-2.0
#include "sim/work/module_image.hpp"

#include <cstring>
#include <filesystem>
#include <fstream>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "sim/work/cubin.hpp"

namespace berth::sim {
namespace {

enum class ImageKind { ptx, cubin, fat_binary, wrapped_fat_binary };

// All but PTX begin with a number that no text has.
ImageKind kind_of(const char* image) {
  const auto begins = [&](const char* magic) { return std::strncmp(image, magic, 4) == 0; };
  if (begins("\x7f"
             "ELF"))
    return ImageKind::cubin;
  if (begins("\x50\xed\x55\xba")) return ImageKind::fat_binary;
  return begins("\xb1\x43\x62\x46") ? ImageKind::wrapped_fat_binary : ImageKind::ptx;
}

/// Of device code that is compiled: all names count as kernels.
Image with_variables(std::optional<std::vector<ImageVariable>> read) {
  Image image;
  if (!read) return image;
  image.variables.emplace();
  for (ImageVariable& variable : *read) image.variables->emplace_back(std::move(variable));
  return image;
}

Image read_ptx(const char* text) {
  if (std::string_view(text).find(".version") == std::string_view::npos)
    return {.refusal = CUDA_ERROR_INVALID_IMAGE};
  Image image = with_variables(read_variables(text));
  image.kernels = read_kernels(text);
  return image;
}

}  // namespace

Image read_image(const void* image) {
  const auto* const text = static_cast<const char*>(image);
  switch (kind_of(text)) {
    case ImageKind::ptx:
      return read_ptx(text);
    case ImageKind::cubin:
      return with_variables(read_cubin(copy_cubin(image)));
    case ImageKind::fat_binary:
      return with_variables(read_fat_binary(copy_fat_binary(image)));
    case ImageKind::wrapped_fat_binary:
      return with_variables(read_fat_binary(copy_wrapped_fat_binary(image)));
  }
  return {};
}

Image read_image_file(const char* path) {
  std::ifstream file(path, std::ios::binary);
  std::error_code ignored;
  if (!file.is_open() || std::filesystem::is_directory(path, ignored))
    return {.refusal = CUDA_ERROR_FILE_NOT_FOUND};
  std::ostringstream stream;
  stream << file.rdbuf();  // what cannot be read ends it without an exception
  const std::string content = std::move(stream).str();
  const std::span<const std::byte> bytes = std::as_bytes(std::span(content));
  switch (kind_of(content.c_str())) {
    case ImageKind::ptx:
      return read_ptx(content.c_str());
    case ImageKind::cubin:
      return with_variables(read_cubin(bytes));
    case ImageKind::fat_binary:
      return with_variables(read_fat_binary(bytes));
    case ImageKind::wrapped_fat_binary:  // a pointer, which no file has
      break;
  }
  return {};
}

}  // namespace berth::sim
