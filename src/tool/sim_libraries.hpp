// SPDX-License-Identifier: Apache-2.0
// The look-alikes of libcuda.so.1 and libnvidia-ml.so.1, which run programs that do not know berth.
#pragma once

#include <string>
#include <vector>

namespace berth::tool {

class SimLibraries {
 public:
  /// The look-alikes in `folder`; if it is empty, those that were installed or built with this
  /// command.
  /// Errors  UsageError: `folder` has none. std::runtime_error: none were installed.
  explicit SimLibraries(const std::string& folder);

  [[nodiscard]] const std::string& folder() const { return folder_; }
  /// By their paths, with berth's CUDA runtime where it was built.
  [[nodiscard]] std::vector<std::string> files() const;
  /// The library of the simulator itself.
  [[nodiscard]] std::string simulator() const;
  /// Errors  UsageError: the simulator rejects `text` as BERTH_SIM.
  void check_configuration(const std::string& text) const;

 private:
  using Check = const char*(const char*);

  std::string folder_;
  Check* check_ = nullptr;
};

}  // namespace berth::tool
