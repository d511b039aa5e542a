// SPDX-License-Identifier: Apache-2.0
#include "sim/check/findings.hpp"

#include <algorithm>
#include <cstdlib>

#include "base/format.hpp"
#include "base/standard_error.hpp"
#include "base/text_list.hpp"
#include "sim/check/call_stacks.hpp"
#include "sim/check/names.hpp"
#include "sim/error_names.hpp"

namespace berth::sim {
namespace {

constexpr std::size_t kKept = 100;

}  // namespace

bool Findings::is_known(const Finding& finding) {
  const bool have_places =
      !finding.uses.empty() &&
      std::all_of(finding.uses.begin(), finding.uses.end(),
                  [](const FindingUse& use) { return use.stack != nullptr || use.node != 0; });
  if (!alone_ || !have_places) return false;
  std::vector<std::string> uses;
  for (const FindingUse& use : finding.uses)
    uses.push_back(format_text("{} {} {} {}", use.call, use.does,
                               static_cast<const void*>(use.stack),
                               use.stack == nullptr ? use.node : 0));
  std::sort(uses.begin(), uses.end());  // uses may come in either order
  return !met_.insert(format_text("{} {}", finding.kind(), join_texts(uses, ", "))).second;
}

void Findings::add(Finding finding) {
  if (!config_.checks.wants(finding.kind())) return;
  // One operation can conflict in many rows of memory.
  if (!lines_.empty() && lines_.back() == finding.text) return;
  if (log_.on()) log_.note(format_text("found: {}", finding.kind()));
  if (is_known(finding)) return;
  if (lines_.size() >= kKept) {
    ++dropped_;
    if (dropped_ == 1) file_.note_more();
    return;
  }
  if (alone_) tell(finding);
  lines_.push_back(std::move(finding.text));
}

void Findings::tell(const Finding& finding) {
  const bool aborts = config_.on_finding == OnFinding::abort;
  const bool is_recorded = file_.add(finding, config_.seed);
  if (!is_recorded || aborts) {
    write_to_stderr(format_text("simulated driver: {}\n", finding.text));
    for (const FindingUse& use : finding.uses)
      if (use.stack != nullptr)
        write_to_stderr(format_text("  {} {}\n{}", use.call, use.does, describe(*use.stack)));
  }
  if (!aborts) return;
  std::abort();
}

void Findings::note_failed_call(const CallSite& call, CUresult result) {
  const std::string name = call.number != 0 ? call_name(call) : short_name(call);
  file_.note_failed_call(name, error_text(result), call.stack);
}

void Findings::note_skipped_launches(std::uint64_t count, bool is_final) {
  if (file_.note_count("skipped_launches", count, is_final) || !is_final) return;
  write_to_stderr(format_text(
      "simulated driver: {} launches of kernels were skipped (kernels=skip): results are garbage\n",
      count));
}

std::vector<std::string> Findings::take() {
  std::vector<std::string> taken = std::exchange(lines_, {});
  if (dropped_ != 0) taken.push_back(format_text("and {} more", std::exchange(dropped_, 0)));
  return taken;
}

}  // namespace berth::sim
