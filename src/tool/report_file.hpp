// SPDX-License-Identifier: Apache-2.0
// A file that a command writes at its end. Until then the file keeps its content, and it is known
// that it can be written.
#pragma once

#include <string>
#include <string_view>

namespace berth::tool {

class ReportFile {
 public:
  /// Opens nothing if `path` is empty.
  /// Errors  UsageError that names `option`: the file cannot be written, or is a pipe without a
  ///         reader.
  ReportFile(const std::string& path, const char* option);
  /// Removes a file that was made for nothing.
  ~ReportFile();
  ReportFile(const ReportFile&) = delete;
  ReportFile& operator=(const ReportFile&) = delete;

  [[nodiscard]] bool is_open() const { return file_ >= 0; }
  /// Replaces the content.
  /// Errors  std::runtime_error.
  void write(std::string_view text);

 private:
  std::string path_;
  int file_ = -1;
  bool is_new_ = false;  ///< made by this object, and not yet written
};

}  // namespace berth::tool
