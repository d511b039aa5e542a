// SPDX-License-Identifier: Apache-2.0
#include "tool/example_trace.hpp"

#include <filesystem>
#include <system_error>

namespace berth::tool {

std::optional<std::string> find_example_trace() {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::path executable = fs::read_symlink("/proc/self/exe", error);
  if (error) return std::nullopt;
  fs::path folder = executable.parent_path();
  for (;; folder = folder.parent_path()) {
    for (const char* below : {"share/berth/traces", "bench/traces"}) {
      const fs::path trace = folder / below / "gpt2-train.csv.gz";
      if (fs::exists(trace, error)) return trace.string();
    }
    if (folder == folder.root_path()) return std::nullopt;
  }
}

}  // namespace berth::tool
