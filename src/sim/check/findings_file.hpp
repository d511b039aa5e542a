// SPDX-License-Identifier: Apache-2.0
// The file that BERTH_SIM_FINDINGS names, in which all processes of a run leave what `berth sim`
// reports: a line of JSON each, written with one call as soon as it is known, so that a process may
// crash or be killed at any time. Guarded by sim::mutex.
//
//   {"record":"process","pid":7,"program":"/usr/bin/python3"}
//   {"record":"finding","pid":7,"kind":"race","text":"race: ...","seed":3,"uses":[
//     {"call":"cuMemcpyAsync","does":"reads","bytes":64,"frames":[...]}, ...]}
//                                        without uses also "mistake", the same text in every run
//   {"record":"more","pid":7,"count":4}  at least so many findings were not kept
//   {"record":"version","pid":7,"version":13000}     of the driver, which was asked for
//   {"record":"inner_command","pid":7}   a `berth sim` that reports the findings of its program
//   {"record":"private_table","pid":7,"module":"./program"}   which asked for one
//   {"record":"skipped_launches","pid":7,"count":9,"final":true}   not final: and maybe more since
//   {"record":"unrun_operations","pid":7,"count":3,"final":true}
//   {"record":"failed_calls","pid":7,"count":2,"final":true}       the same of calls
//   {"record":"failed_call","pid":7,"call":"cuMemFree (call 7)","error":"...","frames":[...]}
//                                        the first of them
//
// A line may be preceded by one that a killed process did not finish.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>

#include "sim/check/finding.hpp"

namespace berth::sim {

class FindingsFile {
 public:
  /// `on`: if false, nothing is written.
  explicit FindingsFile(bool on);

  /// False if there is no file, or the write fails.
  bool add(const Finding& finding, std::string_view mistake, std::uint64_t seed);
  /// False if there is no file, or the write fails.
  bool note_more(std::uint64_t count);
  /// Writes the record once for each module.
  void note_private_table(const char* module);
  /// False if there is no file, or the write fails.
  bool note_count(std::string_view record, std::uint64_t count, bool is_final);
  void note_failed_call(std::string_view call, std::string_view error, const CallStack* stack);

 private:
  [[nodiscard]] bool write(std::string_view line) const;

  std::string path_;                      // empty: none
  std::set<std::string> private_tables_;  // modules that have asked
};

/// Notes once in each process that it has asked for the version of the driver.
void note_version_query(int version);

}  // namespace berth::sim
