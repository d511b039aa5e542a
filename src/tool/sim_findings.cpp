// SPDX-License-Identifier: Apache-2.0
#include "tool/sim_findings.hpp"

#include <algorithm>
#include <fstream>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "tool/runtime_inside.hpp"

namespace berth::tool {
namespace {

using Json = nlohmann::json;

std::string key_of(const SimUse& use) {
  std::string key = fmt::format("{} {}", use.call, use.does);
  // Without a call site, the size distinguishes uses.
  if (use.frames.empty()) key += fmt::format(" {}", use.bytes);
  for (const std::string& line : call_site_lines(use)) key += "\n" + line;
  return key;
}

/// The same for two findings of one mistake. Either use may come first.
std::string key_of(const SimFinding& finding) {
  if (finding.uses.empty()) return finding.mistake;
  std::vector<std::string> uses;
  for (const SimUse& use : finding.uses) uses.push_back(key_of(use));
  std::sort(uses.begin(), uses.end());
  return fmt::format("{}\n{}", finding.kind, fmt::join(uses, "\n"));
}

Counted sum_of(const std::map<std::pair<std::size_t, int>, Counted>& counts) {
  Counted all;
  for (const auto& [process, counted] : counts) {
    all.count += counted.count;
    all.is_exact = all.is_exact && counted.is_exact;
  }
  return all;
}

CallFrame parse_frame(const Json& json) {
  CallFrame frame;
  frame.function = json.at("function");
  if (json.contains("file")) {
    frame.file = json.at("file");
    frame.line = json.at("line");
  } else {
    frame.module = json.at("module");
    frame.offset = json.at("offset");
  }
  return frame;
}

SimFinding parse_finding(const Json& json) {
  SimFinding finding;
  finding.kind = json.at("kind");
  finding.text = json.at("text");
  finding.mistake = json.value("mistake", finding.text);
  finding.seeds = {json.at("seed").get<std::uint64_t>()};
  finding.pids = {json.at("pid").get<int>()};
  for (const Json& use : json.at("uses")) {
    SimUse& added =
        finding.uses.emplace_back(SimUse{use.at("call"), use.at("does"), use.at("bytes"), {}});
    for (const Json& frame : use.at("frames")) added.frames.push_back(parse_frame(frame));
  }
  return finding;
}

}  // namespace

void SimFindings::read(const std::string& path) {
  std::ifstream file(path);
  ++runs_;
  for (std::string line; std::getline(file, line);)
    if (!line.empty()) read_line(line);
}

std::uint64_t SimFindings::dropped() const {
  return sum_of(dropped_).count;
}

Counted SimFindings::skipped_launches() const {
  return sum_of(skipped_);
}

std::uint64_t SimFindings::unrun_operations() const {
  return sum_of(unrun_).count;
}

FailedCalls SimFindings::failed_calls() const {
  return {sum_of(failed_), first_failed_.value_or(SimUse{})};
}

void SimFindings::read_line(const std::string& line) {
  try {
    add(line);
  } catch (const Json::exception&) {
    ++unfinished_;
  }
}

void SimFindings::add(const std::string& line) {
  const Json json = Json::parse(line);
  const std::string record = json.at("record");
  if (record == "process") ++processes_;
  if (record == "inner_command") ++inner_commands_;
  if (record == "version") version_asked_ = json.at("version");
  if (record == "more") dropped_[{runs_, json.at("pid").get<int>()}] = {json.at("count"), false};
  if (record == "private_table" && nvidia_runtime_.empty()) {
    const std::string module = json.at("module");
    if (has_runtime_inside(module)) nvidia_runtime_ = module;
  }
  if (record == "skipped_launches")
    skipped_[{runs_, json.at("pid").get<int>()}] = {json.at("count"), json.at("final")};
  if (record == "unrun_operations")
    unrun_[{runs_, json.at("pid").get<int>()}] = {json.at("count"), json.at("final")};
  if (record == "failed_calls")
    failed_[{runs_, json.at("pid").get<int>()}] = {json.at("count"), json.at("final")};
  if (record == "failed_call" && !first_failed_) {
    first_failed_ = SimUse{json.at("call"), json.at("error"), 0, {}};
    for (const Json& frame : json.at("frames")) first_failed_->frames.push_back(parse_frame(frame));
  }
  if (record != "finding") return;
  SimFinding finding = parse_finding(json);
  const std::string key = key_of(finding);
  const auto known = std::find(keys_.begin(), keys_.end(), key);
  if (known == keys_.end()) {
    keys_.push_back(key);
    findings_.push_back(std::move(finding));
    return;
  }
  SimFinding& same = findings_[static_cast<std::size_t>(known - keys_.begin())];
  same.seeds.insert(finding.seeds.begin(), finding.seeds.end());
  same.pids.insert(finding.pids.begin(), finding.pids.end());
}

}  // namespace berth::tool
