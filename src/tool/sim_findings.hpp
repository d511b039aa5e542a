// SPDX-License-Identifier: Apache-2.0
// Reads the file that BERTH_SIM_FINDINGS names, which the processes of a run write, and collects
// the findings of several runs, each mistake once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace berth::tool {

/// A place in the program.
struct CallFrame {
  bool operator==(const CallFrame&) const = default;

  std::string file;      ///< of the source; empty: not known
  int line = 0;          ///< with a file
  std::string function;  ///< empty: not known
  std::string module;    ///< empty: a frame of Python
  std::uint64_t offset = 0;
};

struct SimUse {
  std::string call;  ///< "cuMemcpyAsync"
  std::string does;  ///< "reads"
  std::uint64_t bytes = 0;
  std::vector<CallFrame> frames;  ///< the innermost first
};

struct SimFinding {
  std::string kind;
  std::string text;
  std::string mistake;       ///< without uses: the same for each occurrence
  std::vector<SimUse> uses;  ///< none, or the earlier and the later
  std::set<std::uint64_t> seeds;
  std::set<int> pids;
};

/// What processes count.
struct Counted {
  std::uint64_t count = 0;
  bool is_exact = true;  ///< otherwise a process was killed, and may have counted more
};

/// Calls of the driver that returned an error.
struct FailedCalls {
  Counted counted;
  SimUse first;  ///< does: the error
};

class SimFindings {
 public:
  /// Adds the findings of a run in `path`, if the file exists.
  void read(const std::string& path);

  /// In the order in which they were first read.
  [[nodiscard]] const std::vector<SimFinding>& all() const { return findings_; }
  /// Fills in files and lines of native code, if its debug information has them and `addr2line` of
  /// GNU binutils is installed.
  void find_source_lines();
  /// Processes that have called the simulator.
  [[nodiscard]] std::size_t processes() const { return processes_; }
  /// Processes that had more findings than they recorded.
  [[nodiscard]] std::size_t cut_short() const { return dropped_.size(); }
  /// The findings that they did not record, at least.
  [[nodiscard]] std::uint64_t dropped() const;
  /// Whether there may be findings that are not in all().
  [[nodiscard]] bool is_incomplete() const { return cut_short() != 0 || unfinished_ != 0; }
  /// The version of the driver, if a process has asked for it; otherwise 0.
  [[nodiscard]] int version_asked() const { return version_asked_; }
  /// Commands `berth sim` among the processes. Their findings are not in all().
  [[nodiscard]] std::size_t inner_commands() const { return inner_commands_; }
  /// The file of a program or library that contains NVIDIA's runtime, and has called it; empty:
  /// none.
  [[nodiscard]] const std::string& nvidia_runtime() const { return nvidia_runtime_; }
  /// Those that kernels=skip has skipped, in all runs and processes.
  [[nodiscard]] Counted skipped_launches() const;
  /// Operations that were pending when their process ended, in all runs and processes.
  [[nodiscard]] std::uint64_t unrun_operations() const;
  /// In all runs and processes.
  [[nodiscard]] FailedCalls failed_calls() const;
  /// Lines that a process did not finish.
  [[nodiscard]] std::size_t unfinished() const { return unfinished_; }

 private:
  void read_line(const std::string& line);
  void add(const std::string& line);

  std::vector<SimFinding> findings_;
  std::vector<std::string> keys_;  // of each
  std::size_t processes_ = 0;
  std::size_t inner_commands_ = 0;
  std::size_t unfinished_ = 0;
  int version_asked_ = 0;
  std::string nvidia_runtime_;
  std::map<std::pair<std::size_t, int>, Counted> skipped_;  // by run and process
  std::map<std::pair<std::size_t, int>, Counted> unrun_;
  std::map<std::pair<std::size_t, int>, Counted> failed_;
  std::map<std::pair<std::size_t, int>, Counted> dropped_;
  std::optional<SimUse> first_failed_;
  std::size_t runs_ = 0;
};

/// The call site of the use, at most four lines: "pipeline.py:12 in prefetch", "race+0x11d2". Only
/// frames of Python, if there are any; behind four of packages, of the C++ library or of nvcc
/// follows the nearest of the program.
std::vector<std::string> call_site_lines(const SimUse& use);

/// The line of the nearest frame of the program, or else the innermost line; empty: there is none.
std::string nearest_place(const SimUse& use);

/// The line of the finding and those of its call sites.
std::string whole_text(const SimFinding& finding);

}  // namespace berth::tool
