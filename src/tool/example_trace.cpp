// SPDX-License-Identifier: Apache-2.0
#include "tool/example_trace.hpp"

#include <algorithm>
#include <filesystem>
#include <system_error>

namespace berth::tool {
namespace {

namespace fs = std::filesystem;

std::optional<std::string> first_trace_in(const fs::path& folder) {
  std::optional<std::string> first;
  std::error_code ignored;  // a folder that cannot be read holds no trace
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, ignored)) {
    const std::string path = entry.path().string();
    if (path.ends_with(".csv.gz") && (!first || path < *first)) first = path;
  }
  return first;
}

}  // namespace

std::optional<std::string> find_example_trace() {
  std::error_code error;
  const fs::path executable = fs::read_symlink("/proc/self/exe", error);
  if (error) return std::nullopt;
  fs::path folder = executable.parent_path();
  for (;; folder = folder.parent_path()) {
    for (const char* below : {"share/berth/traces", "bench/traces"})
      if (auto trace = first_trace_in(folder / below)) return trace;
    if (folder == folder.root_path()) return std::nullopt;
  }
}

}  // namespace berth::tool
