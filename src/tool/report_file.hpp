// SPDX-License-Identifier: Apache-2.0
// A file that a command writes at its end. Until then the file keeps its content, and it is known
// that it can be written.
#pragma once

#include <string>
#include <string_view>

namespace berth::tool {

class ReportFile {
 public:
  /// Opens nothing if `path` is empty. Does not make the file.
  /// Errors  UsageError that names `option`: the file cannot be written, or is a pipe without a
  ///         reader.
  ReportFile(const std::string& path, const char* option);
  ~ReportFile();
  ReportFile(const ReportFile&) = delete;
  ReportFile& operator=(const ReportFile&) = delete;

  [[nodiscard]] bool is_open() const { return !path_.empty(); }
  /// Replaces the content at once: `text` is written to a new file in the same folder, which then
  /// gets the name of the file. Pipes, devices, and files in a folder in which none can be made,
  /// are written in place.
  /// Errors  std::runtime_error. A file that would have been replaced at once keeps its content.
  void write(std::string_view text);

 private:
  /// False if no file can be made in the folder.
  bool replace(std::string_view text);
  void write_in_place(std::string_view text);
  [[noreturn]] void fail() const;

  std::string path_;
  std::string target_;  ///< the file to replace, without links; empty: it is written in place
  int file_ = -1;       ///< to be written in place
};

}  // namespace berth::tool
