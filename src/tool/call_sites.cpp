// SPDX-License-Identifier: Apache-2.0
// Finding and formatting call sites; declared in sim_findings.hpp.
#include <algorithm>
#include <charconv>
#include <filesystem>
#include <map>
#include <sstream>
#include <string_view>

#include <fmt/format.h>

#include "tool/child_process.hpp"
#include "tool/sim_findings.hpp"

namespace berth::tool {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kLinesMax = 4;

/// Relative to the working directory, if the file is below it.
std::string short_path(const std::string& path) {
  std::error_code error;
  const fs::path below = fs::path(path).lexically_relative(fs::current_path(error));
  const bool is_below = !error && !below.empty() && *below.begin() != "..";
  return is_below ? below.string() : path;
}

/// Frames of the program's start, which carry no information.
bool is_of_start(const CallFrame& frame) {
  const std::string module = fs::path(frame.module).filename().string();
  return module.starts_with("libc.so") || module.starts_with("ld-linux") ||
         frame.function == "_start";
}

/// What nvcc puts between a launch of a kernel and the runtime.
bool is_of_compiler(const CallFrame& frame) {
  return frame.function.starts_with("__device_stub__") ||
         frame.function.starts_with("__cudaLaunchKernel") ||
         frame.function.find("cudaLaunchKernel<") != std::string::npos;
}

/// Of the program itself, not of an installed package, of Python, of the C++ library, or made by a
/// package or by nvcc.
bool is_of_program(const CallFrame& frame) {
  if (frame.file.starts_with("<")) return false;
  for (const char* const part : {"/site-packages/", "/dist-packages/", "/lib/python3",
                                 "/include/c++/", "/cuda_runtime", "/tmpxft_"})
    if (frame.file.find(part) != std::string::npos) return false;
  return frame.module.find("/libstdc++.so") == std::string::npos;
}

/// The frames of a call site, in their order.
std::vector<const CallFrame*> shown_frames(const SimUse& use) {
  const bool has_python = std::any_of(use.frames.begin(), use.frames.end(),
                                      [](const CallFrame& frame) { return frame.module.empty(); });
  std::vector<const CallFrame*> shown;
  bool has_program = false;
  for (const CallFrame& frame : use.frames) {
    const bool is_shown =
        has_python ? frame.module.empty() : !is_of_start(frame) && !is_of_compiler(frame);
    const bool is_programs = is_of_program(frame);
    if (!is_shown || (shown.size() >= kLinesMax && (has_program || !is_programs))) continue;
    shown.push_back(&frame);
    has_program = has_program || is_programs;
  }
  return shown;
}

std::string line_of(const CallFrame& frame) {
  if (!frame.file.empty()) {
    const std::string in = frame.function.empty() ? "" : " in " + frame.function;
    return fmt::format("{}:{}{}", short_path(frame.file), frame.line, in);
  }
  const std::string function = frame.function.empty() ? "" : fmt::format(" ({})", frame.function);
  return fmt::format("{}+{:#x}{}", fs::path(frame.module).filename().string(), frame.offset,
                     function);
}

/// Two lines of addr2line: the function, and "FILE:LINE", with "??" and 0 for unknown values.
void fill(CallFrame& frame, const std::string& function, std::string_view place) {
  if (function != "??") frame.function = function;
  place = place.substr(0, place.find(" (discriminator"));
  const auto colon = place.rfind(':');
  if (colon == std::string_view::npos) return;
  int line = 0;
  std::from_chars(place.data() + colon + 1, place.data() + place.size(), line);
  if (line == 0) return;
  frame.file = fs::path(place.substr(0, colon)).lexically_normal().string();
  frame.line = line;
}

void find_lines_in(const std::string& module, const std::vector<CallFrame*>& frames) {
  std::vector<std::string> command = {"addr2line", "-f", "-C", "-e", module};
  for (const CallFrame* frame : frames) command.push_back(fmt::format("{:#x}", frame->offset));
  std::istringstream lines(output_of(command).value_or(""));
  std::string function;
  std::string place;
  for (CallFrame* frame : frames) {
    if (!std::getline(lines, function) || !std::getline(lines, place)) return;
    fill(*frame, function, place);
  }
}

}  // namespace

void SimFindings::find_source_lines() {
  std::map<std::string, std::vector<CallFrame*>> by_module;
  const auto add = [&](SimUse& use) {
    for (CallFrame& frame : use.frames)
      if (!frame.module.empty()) by_module[frame.module].push_back(&frame);
  };
  for (SimFinding& finding : findings_)
    for (SimUse& use : finding.uses) add(use);
  if (first_failed_) add(*first_failed_);
  for (const auto& [module, frames] : by_module) find_lines_in(module, frames);
}

std::vector<std::string> call_site_lines(const SimUse& use) {
  std::vector<std::string> lines;
  for (const CallFrame* frame : shown_frames(use)) lines.push_back(line_of(*frame));
  return lines;
}

std::string nearest_place(const SimUse& use) {
  const std::vector<const CallFrame*> shown = shown_frames(use);
  if (shown.empty()) return "";
  const auto of_program = std::find_if(
      shown.begin(), shown.end(), [](const CallFrame* frame) { return is_of_program(*frame); });
  return line_of(of_program == shown.end() ? *shown.front() : **of_program);
}

std::string whole_text(const SimFinding& finding) {
  std::string text = finding.text;
  for (const SimUse& use : finding.uses)
    for (const std::string& line : call_site_lines(use)) text += "\n" + line;
  return text;
}

}  // namespace berth::tool
