// SPDX-License-Identifier: Apache-2.0
#include "sim/check/findings.hpp"

#include "base/format.hpp"
#include "base/standard_error.hpp"

namespace berth::sim {
namespace {

constexpr std::size_t kKept = 100;

}  // namespace

void Findings::add(std::string line) {
  // One piece of work can meet another in many rows of memory.
  if (!lines_.empty() && lines_.back() == line) return;
  if (log_.on()) log_.note(format_text("found: {}", line.substr(0, line.find(':'))));
  if (lines_.size() >= kKept) {
    ++dropped_;
    return;
  }
  if (aloud_) write_to_stderr(format_text("simulated driver: {}\n", line));
  lines_.push_back(std::move(line));
}

std::vector<std::string> Findings::take() {
  std::vector<std::string> taken = std::exchange(lines_, {});
  if (dropped_ != 0) taken.push_back(format_text("and {} more", std::exchange(dropped_, 0)));
  return taken;
}

}  // namespace berth::sim
