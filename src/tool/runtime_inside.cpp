// SPDX-License-Identifier: Apache-2.0
#include "tool/runtime_inside.hpp"

#include <cstddef>
#include <fstream>
#include <string_view>

namespace berth::tool {

bool has_runtime_inside(const std::string& file) {
  constexpr std::string_view kName = "cudaErrorMissingConfiguration";
  constexpr std::size_t kPiece = std::size_t{1} << 20;
  std::ifstream from(file, std::ios::binary);
  if (!from.is_open()) return true;
  std::string text;
  std::string piece(kPiece, '\0');
  while (from.read(piece.data(), kPiece) || from.gcount() != 0) {
    text.append(piece, 0, static_cast<std::size_t>(from.gcount()));
    if (text.find(kName) != std::string::npos) return true;
    if (text.size() >= kName.size()) text.erase(0, text.size() - kName.size() + 1);
  }
  return false;
}

}  // namespace berth::tool
