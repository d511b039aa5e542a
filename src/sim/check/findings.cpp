// SPDX-License-Identifier: Apache-2.0
#include "sim/check/findings.hpp"

#include <algorithm>
#include <bit>
#include <cctype>
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

/// `text` without the parts that differ between runs: addresses, handles, and the numbers of calls.
std::string without_numbers(std::string_view text) {
  std::string result;
  for (std::size_t at = 0; at < text.size();) {
    const bool is_address = text.compare(at, 2, "0x") == 0;
    const bool is_number = text.compare(at, 6, "(call ") == 0;
    if (!is_address && !is_number) {
      result += text[at++];
      continue;
    }
    at += is_address ? 2 : 6;
    result += is_address ? "0x" : "(call ";
    while (at < text.size() && std::isxdigit(static_cast<unsigned char>(text[at])) != 0) ++at;
  }
  return result;
}

/// Reports show the frames of Python alone if there are any, so that the frames below them
/// distinguish nothing.
std::string place_of(const CallStack& stack) {
  if (stack.python.empty()) return format_text("{}", static_cast<const void*>(&stack));
  std::string place;
  for (const PythonPlace* frame : stack.python)
    place += format_text(" {}", static_cast<const void*>(frame));
  return place;
}

/// The call site of a use, or else its node of a graph.
std::string place_of(const FindingUse& use) {
  return use.stack != nullptr ? place_of(*use.stack) : format_text("node {}", use.node);
}

/// The same text for each occurrence of one mistake. It distinguishes all that `berth sim`
/// distinguishes.
std::string mistake_of(const Finding& finding) {
  const bool has_places =
      !finding.uses.empty() &&
      std::all_of(finding.uses.begin(), finding.uses.end(),
                  [](const FindingUse& use) { return use.stack != nullptr || use.node != 0; });
  if (!has_places) return without_numbers(finding.text);
  std::vector<std::string> uses;
  for (const FindingUse& use : finding.uses)
    uses.push_back(format_text("{} {} {}", use.call, use.does, place_of(use)));
  std::sort(uses.begin(), uses.end());  // uses may come in either order
  return format_text("{} {}", finding.kind(), join_texts(uses, ", "));
}

}  // namespace

void Findings::add(Finding finding) {
  if (!config_.checks.wants(finding.kind())) return;
  // One operation can conflict in many rows of memory.
  if (!lines_.empty() && lines_.back() == finding.text) return;
  if (log_.on()) log_.note(format_text("found: {}", finding.kind()));
  std::string mistake = alone_ ? mistake_of(finding) : "";
  if (alone_ && met_.contains(mistake)) return;
  if (lines_.size() >= kKept) {
    drop();
    return;
  }
  if (alone_) {
    tell(finding, mistake);
    met_.insert(std::move(mistake));
  }
  lines_.push_back(std::move(finding.text));
}

// A power of two: the file stays short, and the latest number remains if the process is killed.
void Findings::drop() {
  ++dropped_;
  if (!alone_ || !std::has_single_bit(dropped_)) return;
  if (!file_.note_more(dropped_) && dropped_ == 1)
    write_to_stderr(format_text(
        "simulated driver: more than {} different findings; the rest is not printed\n", kKept));
}

void Findings::tell(const Finding& finding, const std::string& mistake) {
  const bool aborts = config_.on_finding == OnFinding::abort;
  const bool is_recorded = file_.add(finding, mistake, config_.seed);
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

void Findings::note_unrun_operations(std::uint64_t count, bool is_final) {
  file_.note_count("unrun_operations", count, is_final);
}

std::vector<std::string> Findings::take() {
  std::vector<std::string> taken = std::exchange(lines_, {});
  if (dropped_ != 0) taken.push_back(format_text("and {} more", std::exchange(dropped_, 0)));
  return taken;
}

}  // namespace berth::sim
