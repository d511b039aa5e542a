// SPDX-License-Identifier: Apache-2.0
#include "driver/own_library.hpp"

#include <dlfcn.h>
#include <vector>

#include "base/format.hpp"
#include "base/quoted.hpp"

namespace berth {
namespace {

/// The folder of the shared library or program that contains this code, with a slash at its end;
/// empty if it is not known.
std::string own_folder() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<void*>(&find_in_own_library), &info) == 0) return {};
  const std::string file = info.dli_fname == nullptr ? "" : info.dli_fname;
  return file.substr(0, file.rfind('/') + 1);
}

}  // namespace

void* find_in_own_library(const char* file, const char* symbol, std::string& problem) {
  std::vector<std::string> paths = {file};
  if (const std::string folder = own_folder(); !folder.empty())
    paths.insert(paths.begin(), folder + file);
  for (const std::string& path : paths) {
    void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      problem += format_text("; {}", on_one_line(dlerror()));
    } else if (void* const found = dlsym(library, symbol)) {
      return found;
    } else {
      problem += format_text("; {} has no {}", path, symbol);
    }
  }
  return nullptr;
}

}  // namespace berth
