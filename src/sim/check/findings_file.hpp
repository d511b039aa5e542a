// SPDX-License-Identifier: Apache-2.0
// The file that BERTH_SIM_FINDINGS names, in which all processes of a run leave what `berth sim`
// reports: a line of JSON each, written with one call as soon as it is known, so that a process may
// crash or be killed at any time. Guarded by sim::mutex.
//
//   {"record":"process","pid":7,"program":"/usr/bin/python3"}
//   {"record":"finding","pid":7,"kind":"race","text":"race: ...","seed":3,"uses":[
//     {"call":"cuMemcpyAsync","does":"reads","bytes":64,"frames":[...]}, ...]}
//   {"record":"more","pid":7}            there are findings that it did not keep
//   {"record":"private_table","pid":7,"module":"./program"}   which has NVIDIA's runtime in it
//   {"record":"skipped_launches","pid":7,"count":9,"final":true}   not final: and maybe more since
//
// A line may be preceded by one that a killed process did not finish.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "sim/check/finding.hpp"

namespace berth::sim {

class FindingsFile {
 public:
  /// `on`: if false, nothing is written.
  explicit FindingsFile(bool on);

  /// False if there is no file, or the write fails.
  bool add(const Finding& finding, std::uint64_t seed);
  void note_more();
  /// Writes the record once.
  void note_private_table(const char* module);
  /// False if there is no file, or the write fails.
  bool note_skipped_launches(std::uint64_t count, bool is_final);

 private:
  [[nodiscard]] bool write(std::string_view line) const;

  std::string path_;  // empty: none
  bool has_private_table_ = false;
};

}  // namespace berth::sim
