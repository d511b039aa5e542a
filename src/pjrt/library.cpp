// SPDX-License-Identifier: Apache-2.0
#include "pjrt/library.hpp"

#include <algorithm>
#include <dlfcn.h>
#include <filesystem>

#include "berth/error.hpp"

#include "base/format.hpp"
#include "base/quoted.hpp"

namespace berth::pjrt {

Library::Library(const std::string& path) : threads_before_(list_threads()) {
  handle_ = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle_ == nullptr) {
    throw InvalidArgument(format_text("{} cannot be loaded as a PJRT plug-in: {}",
                                      on_one_line(path), on_one_line(dlerror())));
  }
}

Library::~Library() {
  if (!is_kept_ && !has_new_thread()) dlclose(handle_);
}

void* Library::find(const char* function) const noexcept {
  return dlsym(handle_, function);
}

std::optional<Library::Threads> Library::list_threads() noexcept {
  try {
    Threads threads;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task"))
      threads.insert(entry.path().filename());
    return threads;
  } catch (...) {  // there is no such folder, or no memory
    return std::nullopt;
  }
}

bool Library::has_new_thread() const noexcept {
  const std::optional<Threads> now = list_threads();
  return !now || !threads_before_ || !std::ranges::includes(*threads_before_, *now);
}

}  // namespace berth::pjrt
