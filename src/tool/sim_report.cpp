// SPDX-License-Identifier: Apache-2.0
#include "tool/sim_report.hpp"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tool/exit_code.hpp"
#include "tool/printable.hpp"

namespace berth::tool {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kSeedsShown = 10;

/// "1 finding", "2 findings", "2 launches".
std::string counted(std::size_t number, std::string_view noun) {
  const char* const ending = number == 1                                    ? ""
                             : noun.ends_with("ch") || noun.ends_with("ss") ? "es"
                                                                            : "s";
  return fmt::format("{} {}{}", number, noun, ending);
}

/// "; races and leaks were not checked"; empty if every kind of finding was looked for.
std::string unchecked_text(const std::vector<std::string>& kinds) {
  if (kinds.empty()) return "";
  std::string text = "; ";
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    if (i != 0) text += i + 1 == kinds.size() ? " and " : ", ";
    text += kinds[i] == "aliasing" ? kinds[i] : kinds[i] + "s";
  }
  const bool is_one_word = kinds.size() == 1 && kinds[0] == "aliasing";
  return text + (is_one_word ? " was not checked" : " were not checked");
}

/// What can be done about NVIDIA's runtime in this file.
const char* advice_for(const std::string& file) {
  const std::string name = std::filesystem::path(file).filename();
  if (name.starts_with("libcudart.so")) return "; --preload loads berth's in its place";
  const bool is_library = name.find(".so") != std::string::npos;
  return is_library ? ": the calls of this library fail, and a program can only do without them"
                    : "; link the runtime as a shared library (nvcc --cudart shared)";
}

std::string signal_name(int signal) {
  const char* const name = sigabbrev_np(signal);
  return name == nullptr ? fmt::format("signal {}", signal)
                         : fmt::format("signal {} (SIG{})", signal, name);
}

std::string how_it_ended(const SimRun& run) {
  if (run.signal != 0) return signal_name(run.signal);
  return fmt::format("exit code {}", run.exit_code);
}

/// A title, and the lines that belong to it below one another.
std::string titled(std::string title, const std::vector<std::string>& lines) {
  constexpr std::size_t kWidth = 11;
  const std::size_t width = std::max(kWidth, title.size());
  std::string text;
  for (const std::string& line : lines) {
    text += fmt::format("    {:<{}} {}\n", title, width, printable(line));
    title = "";
  }
  return text;
}

Json frame_json(const CallFrame& frame) {
  Json json = {{"file", nullptr}, {"line", nullptr}, {"function", nullptr}};
  if (!frame.file.empty()) json["file"] = frame.file;
  if (!frame.file.empty()) json["line"] = frame.line;
  if (!frame.function.empty()) json["function"] = frame.function;
  if (frame.module.empty()) return json;
  json["module"] = frame.module;
  json["offset"] = frame.offset;
  return json;
}

Json use_json(const SimUse& use) {
  Json frames = Json::array();
  for (const CallFrame& frame : use.frames) frames.push_back(frame_json(frame));
  return {{"call", use.call}, {"does", use.does}, {"bytes", use.bytes}, {"frames", frames}};
}

Json finding_json(const SimFinding& finding, const Suppression* ignored_by) {
  Json uses = Json::array();
  for (const SimUse& use : finding.uses) uses.push_back(use_json(use));
  Json json = {{"kind", finding.kind},   {"text", finding.text}, {"uses", uses},
               {"seeds", finding.seeds}, {"pids", finding.pids}, {"ignored", nullptr}};
  if (ignored_by != nullptr) json["ignored"] = ignored_by->reason;
  return json;
}

}  // namespace

std::string shell_words(const std::vector<std::string>& words) {
  constexpr const char* kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+=:,./-";
  std::string text;
  for (const std::string& word : words) {
    if (!text.empty()) text += ' ';
    if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) {
      text += word;
      continue;
    }
    text += '\'';
    for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
    text += '\'';
  }
  return text;
}

std::vector<const SimFinding*> SimReport::reported() const {
  std::vector<const SimFinding*> all;
  const std::vector<SimFinding>& found = findings.all();
  for (std::size_t i = 0; i < found.size(); ++i)
    if (ignored_by[i] == nullptr) all.push_back(&found[i]);
  return all;
}

int SimReport::exit_code() const {
  const auto failed =
      std::find_if(runs.begin(), runs.end(), [](const SimRun& run) { return run.exit_code != 0; });
  if (failed != runs.end()) return failed->exit_code;
  if (!reported().empty() || findings.is_incomplete()) return static_cast<int>(ExitCode::failed);
  return static_cast<int>(findings.nvidia_runtime().empty() ? ExitCode::ok : ExitCode::usage);
}

std::string SimReport::heading() const {
  const std::size_t count = reported().size();
  const std::string number = count == 0 ? "no findings" : counted(count, "finding");
  const std::string in = runs.size() == 1 ? "" : " in " + counted(runs.size(), "seed");
  std::string limits;
  if (count == 0 && findings.is_incomplete())
    limits = ", but some may be lost";
  else if (count == 0 && !findings.nvidia_runtime().empty())
    limits = ", but calls could not be checked";
  if (count == 0) limits += unchecked_text(unchecked);
  return fmt::format("berth sim: {}{}{}\n", number, in, limits);
}

std::string SimReport::seeds_text(std::vector<std::uint64_t> seeds) const {
  const std::uint64_t first = seeds.front();
  const std::size_t more = seeds.size() - std::min(seeds.size(), kSeedsShown);
  const char* const noun = seeds.size() == 1 ? "seed" : "seeds";
  seeds.resize(seeds.size() - more);
  return fmt::format("{} {}{}; again with: {} --seed {} {}", noun, fmt::join(seeds, ", "),
                     more == 0 ? "" : fmt::format(" and {} more", more), again_before, first,
                     again_after);
}

std::string SimReport::finding_text(const SimFinding& finding) const {
  std::string text = fmt::format("  {}\n", printable(finding.text));
  const bool is_of_uses = finding.kind == "race" || finding.kind == "aliasing";
  for (std::size_t i = 0; i < finding.uses.size(); ++i) {
    const SimUse& use = finding.uses[i];
    std::string title = i == 0 ? "first use" : "second use";
    if (!is_of_uses) title = printable(fmt::format("{} {}", use.call, use.does));
    text += titled(std::move(title), call_site_lines(use));
  }
  if (runs.front().seed)
    text += fmt::format("    {}\n", seeds_text({finding.seeds.begin(), finding.seeds.end()}));
  return text;
}

std::string SimReport::failures_text() const {
  std::vector<std::pair<std::string, std::vector<std::uint64_t>>> seeds;  // of each end
  for (const SimRun& run : runs) {
    if (run.exit_code == 0) continue;
    const std::string end = how_it_ended(run);
    if (!run.seed)
      return run.signal == 0 ? "" : fmt::format("berth sim: the program was ended by {}\n", end);
    auto same = std::find_if(seeds.begin(), seeds.end(),
                             [&](const auto& entry) { return entry.first == end; });
    if (same == seeds.end()) same = seeds.insert(seeds.end(), {end, {}});
    same->second.push_back(*run.seed);
  }
  std::string text;
  for (const auto& [end, of_end] : seeds)
    text +=
        fmt::format("berth sim: the program failed, with {}\n    {}\n", end, seeds_text(of_end));
  return text;
}

std::string SimReport::notes() const {
  std::string text;
  const auto note = [&](const std::string& line) {
    text += "berth sim: " + printable(line) + "\n";
  };
  for (const Suppression& suppression : suppressions) {
    if (suppression.used == 0)
      note(fmt::format("{}: no finding matches '{}'", suppression.place, suppression.pattern));
    else
      note(fmt::format("{}: {} ignored: {}", suppression.place,
                       counted(suppression.used, "finding"), suppression.reason));
  }
  if (findings.cut_short() != 0)
    note(
        fmt::format("{} had more than 100 different findings, and did not keep at least {}: "
                    "the exit code is not 0",
                    counted(findings.cut_short(), "process"), findings.dropped()));
  if (findings.unfinished() != 0)
    note(
        fmt::format("{} in the findings of a process that was killed cannot be read, and may have "
                    "been a finding: the exit code is not 0",
                    counted(findings.unfinished(), "line")));
  if (const FailedCalls failed = findings.failed_calls(); failed.counted.count != 0) {
    const std::string place = nearest_place(failed.first);
    note(fmt::format("{}{} of the driver failed; the first: {}, {}{}{}",
                     failed.counted.is_exact ? "" : "at least ",
                     counted(failed.counted.count, "call"), failed.first.call, failed.first.does,
                     place.empty() ? "" : ", at ", place));
  }
  if (const Counted skipped = findings.skipped_launches(); skipped.count != 0)
    note(fmt::format("results are garbage, because {}{} of kernels {} skipped (kernels=skip)",
                     skipped.is_exact ? "" : "at least ", counted(skipped.count, "launch"),
                     skipped.count == 1 ? "was" : "were"));
  if (const std::uint64_t unrun = findings.unrun_operations(); unrun != 0)
    note(fmt::format(
        "{} had not run when the program ended, because nothing waited, and {} not checked",
        counted(unrun, "operation"), unrun == 1 ? "was" : "were"));
  if (const std::string& runtime = findings.nvidia_runtime(); !runtime.empty())
    note(fmt::format(
        "{} has NVIDIA's CUDA runtime in it, which does not run on the simulated driver{}", runtime,
        advice_for(runtime)));
  else if (findings.processes() == 0 && findings.inner_commands() == 0)
    note(missing_calls_text());
  if (findings.inner_commands() != 0)
    note(fmt::format("{} `berth sim` ran inside, and reported findings that are not counted here",
                     counted(findings.inner_commands(), "command")));
  return text;
}

std::string SimReport::missing_calls_text() const {
  const int version = findings.version_asked();
  if (version != 0)
    return fmt::format(
        "the program asked the simulated driver for its version, {}.{}, and made no "
        "other call, so nothing was checked",
        version / 1000, version % 1000 / 10);
  return "the program made no call of the simulated driver, so nothing was checked; --preload is "
         "for programs that carry their own paths of libraries";
}

std::string SimReport::text() const {
  std::string text = failures_text() + heading();
  for (const SimFinding* finding : reported()) text += finding_text(*finding);
  return text + notes();
}

nlohmann::ordered_json SimReport::json() const {
  Json all = Json::array();
  for (std::size_t i = 0; i < ignored_by.size(); ++i)
    all.push_back(finding_json(findings.all()[i], ignored_by[i]));
  Json runtime = nullptr;
  if (!findings.nvidia_runtime().empty()) runtime = findings.nvidia_runtime();
  Json ended = Json::array();
  for (const SimRun& run : runs) {
    Json entry = {{"seed", nullptr}, {"exit_code", run.exit_code}, {"signal", nullptr}};
    if (run.seed) entry["seed"] = *run.seed;
    if (run.signal != 0) entry["signal"] = run.signal;
    ended.push_back(std::move(entry));
  }
  return {{"exit_code", exit_code()},
          {"configuration", configuration},
          {"findings", std::move(all)},
          {"runs", std::move(ended)},
          {"processes", findings.processes()},
          {"nvidia_runtime", std::move(runtime)},
          {"skipped_launches", findings.skipped_launches().count},
          {"unrun_operations", findings.unrun_operations()},
          {"failed_calls", findings.failed_calls().counted.count},
          {"dropped_findings", findings.dropped()},
          {"unreadable_lines", findings.unfinished()},
          {"not_checked", unchecked},
          {"inner_commands", findings.inner_commands()}};
}

}  // namespace berth::tool
