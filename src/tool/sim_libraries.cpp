// SPDX-License-Identifier: Apache-2.0
#include "tool/sim_libraries.hpp"

#include <dlfcn.h>
#include <filesystem>
#include <stdexcept>
#include <string_view>
#include <system_error>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tool/exit_code.hpp"
#include "tool/printable.hpp"

namespace berth::tool {
namespace {

namespace fs = std::filesystem;

constexpr const char* kCuda = "libcuda.so.1";
constexpr const char* kNvml = "libnvidia-ml.so.1";
constexpr const char* kRuntime13 = "libcudart.so.13";
constexpr const char* kRuntime12 = "libcudart.so.12";

/// Next to the library folder of the installation, or in the build folder.
std::vector<fs::path> folders_to_try() {
  std::error_code error;
  const fs::path command = fs::read_symlink("/proc/self/exe", error).parent_path();
  return {(command.parent_path() / BERTH_LIBRARY_FOLDER / "berth" / "sim").lexically_normal(),
          command.parent_path() / "sim" / "exports"};
}

std::string find_folder() {
  std::vector<std::string> tried;
  for (const fs::path& folder : folders_to_try()) {
    std::error_code error;
    if (fs::exists(folder / kCuda, error)) return folder.string();
    tried.push_back(folder.string());
  }
  throw std::runtime_error(
      fmt::format("no {} of the simulated driver; looked in {}; --libraries DIR names its folder",
                  kCuda, fmt::join(tried, " and ")));
}

}  // namespace

SimLibraries::SimLibraries(const std::string& folder)
    : folder_(folder.empty() ? find_folder() : fs::absolute(folder).lexically_normal().string()) {
  const std::string cuda = (fs::path(folder_) / kCuda).string();
  void* const library = dlopen(cuda.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) throw UsageError(fmt::format("--libraries: {}", dlerror()));
  check_ = reinterpret_cast<Check*>(dlsym(library, "berth_sim_check_configuration"));
  if (check_ == nullptr)
    throw UsageError(
        fmt::format("--libraries: {} is not of the simulated driver", printable(cuda)));
}

std::vector<std::string> SimLibraries::files() const {
  std::vector<std::string> files;
  for (const char* const name : {kCuda, kNvml, kRuntime13, kRuntime12}) {
    std::error_code error;
    const fs::path file = fs::path(folder_) / name;
    if (fs::exists(file, error)) files.push_back(file.string());
  }
  return files;
}

std::string SimLibraries::simulator() const {
  Dl_info library{};
  const bool is_known = dladdr(reinterpret_cast<const void*>(check_), &library) != 0;
  return is_known ? library.dli_fname : "";
}

void SimLibraries::check_configuration(const std::string& text) const {
  const std::string reason = check_(text.c_str());
  if (!reason.empty()) throw UsageError(reason);
}

}  // namespace berth::tool
