// SPDX-License-Identifier: Apache-2.0
#include "sim/check/fault_finding.hpp"

#include <string>
#include <utility>
#include <vector>

#include "base/format.hpp"
#include "sim/check/names.hpp"
#include "sim/state.hpp"

namespace berth::sim {
namespace {

const char* fault_verb(const Use& use) {
  return use.kind == UseKind::reads ? "reads" : "writes";
}

/// Why memory that nothing has ended cannot be used.
const char* reason_of(State& state, const Use& use) {
  if (state.addresses.find_for_work(use.address) != nullptr) {
    const Span span = state.addresses.span_for_work(use.address, use.bytes);
    if (span.kind == Span::Kind::invalid) return "which reaches past the end of its memory";
    return span.kind == Span::Kind::device ? "to which its device has no access"
                                           : "which the program has unmapped";
  }
  return state.addresses.find(use.address) != nullptr
             ? "which is not allocated yet in the order of the work"
             : "where no memory is";
}

}  // namespace

void report_fault(State& state, const Use& use) {
  if (!state.findings.alone()) return;
  const bool is_there = state.addresses.find_for_work(use.address) != nullptr;
  const EndedMemory::Entry* const ended =
      is_there ? nullptr : state.ended_memory.find(use.address, use.bytes);
  std::vector<FindingUse> uses;
  std::string reason;
  if (ended != nullptr) {
    reason = format_text("{} has ended that memory{}", call_name(ended->call), ended->name);
    uses.push_back({short_name(ended->call), "frees", ended->bytes, ended->call.stack});
  } else {
    reason = reason_of(state, use);
  }
  uses.push_back({short_name(use.call), fault_verb(use), use.bytes, use.call.stack});
  state.findings.add({format_text("fault: {} on {} {} {}{} {}; calls of its context return "
                                  "CUDA_ERROR_ILLEGAL_ADDRESS from then on",
                                  call_name(use.call), stream_name(use.stream), fault_verb(use),
                                  memory_text(state, use.address, use.bytes),
                                  ended != nullptr ? ";" : ",", reason),
                      std::move(uses)});
}

}  // namespace berth::sim
