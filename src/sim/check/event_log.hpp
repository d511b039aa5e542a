// SPDX-License-Identifier: Apache-2.0
// The event log, one line for each event: calls, work that begins and runs, faults and findings.
// Streams are numbered in the order of appearance and addresses are omitted, so that two runs with
// the same seed, on one host thread, write the same bytes. Guarded by sim::mutex.
#pragma once

#include <cstdint>
#include <fstream>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "sim/work/operation.hpp"

namespace berth::sim {

struct Stream;

class EventLog {
 public:
  using Now = std::function<std::uint64_t()>;

  /// `setting` as in Config::log; `now` returns the current time in nanoseconds. A file is
  /// truncated. `alone`: no test reads the log, so "on" is standard error, and a file is appended
  /// to, since every process of a program writes there.
  /// Errors  InvalidArgument: the file cannot be written, or is a folder or a pipe.
  EventLog(const std::string& setting, Now now, bool alone = false);

  [[nodiscard]] bool on() const { return on_; }
  void call(const CallSite& call);
  void fails(const CallSite& call, CUresult result);
  /// The two differ only in virtual time.
  void begins(const Stream& stream, const Operation& operation);
  void runs(const Stream& stream, const Operation& operation);
  /// It used memory that is not there.
  void faults(const Stream& stream, const Operation& operation);
  /// Its context has failed before.
  void is_dropped(const Stream& stream, const Operation& operation);
  void note(std::string_view what);

  /// All lines, if they are kept.
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  void write(std::string_view what);
  void write(std::string_view verb, const Stream& stream, const Operation& operation);

  bool on_;
  bool to_stderr_;
  Now now_;
  std::ofstream file_;
  std::string text_;
  std::unordered_map<Handle, std::size_t> streams_;  // numbers, from 1
};

}  // namespace berth::sim
