// SPDX-License-Identifier: Apache-2.0
// Files of the project that tests read.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

namespace berth::test {

/// The folder of the sources. The build tells it to each test that it runs.
inline std::filesystem::path source_root() {
  const char* const root = std::getenv("BERTH_SOURCE_ROOT");
  REQUIRE_MESSAGE(root != nullptr, "BERTH_SOURCE_ROOT is not set; `meson test` does that");
  return root;
}

/// The files in `folder` whose names end in `suffix`, by name; none where there is no such folder.
inline std::vector<std::string> files_in(const std::filesystem::path& folder,
                                         std::string_view suffix) {
  std::vector<std::string> files;
  if (!std::filesystem::is_directory(folder)) return files;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    if (entry.path().string().ends_with(suffix)) files.push_back(entry.path().string());
  std::sort(files.begin(), files.end());
  return files;
}

inline std::string content_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  REQUIRE_MESSAGE(file.good(), path.string());
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace berth::test
