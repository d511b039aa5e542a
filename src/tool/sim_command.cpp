// SPDX-License-Identifier: Apache-2.0
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <system_error>
#include <unistd.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tool/child_process.hpp"
#include "tool/command.hpp"
#include "tool/json_text.hpp"
#include "tool/output.hpp"
#include "tool/printable.hpp"
#include "tool/report_file.hpp"
#include "tool/sim_libraries.hpp"
#include "tool/sim_report.hpp"
#include "tool/sim_settings.hpp"

namespace berth::tool {
namespace {

namespace fs = std::filesystem;

constexpr int kSeedsMax = 1'000'000;

struct SimOptions {
  std::string devices;
  std::string memory;
  std::optional<std::uint64_t> seed;
  int seeds = 0;  ///< 0: one run
  std::vector<std::string> checks;
  std::string faults;
  std::string log;
  std::string kernels;
  std::vector<std::string> settings;
  std::string on_finding;
  std::string call_sites;
  std::string ignore;
  std::string json;
  std::string libraries;
  bool preload = false;
  std::vector<std::string> program;
};

/// A folder for the findings of one command, which removes it at its end.
class ScratchFolder {
 public:
  ScratchFolder() {
    const char* const chosen = std::getenv("TMPDIR");
    const std::string parent = chosen == nullptr || *chosen == '\0' ? "/tmp" : chosen;
    std::string name = (fs::path(parent) / "berth-sim-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr)
      throw UsageError(fmt::format("TMPDIR: no folder can be made in {}: {}",
                                   quoted_argument(parent),
                                   std::generic_category().message(errno)));
    path_ = name;
  }
  ~ScratchFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  [[nodiscard]] std::string file(const std::string& name) const { return (path_ / name).string(); }

 private:
  fs::path path_;
};

/// The library that NVTX loads into a program that uses it.
constexpr const char* kNvtxTool = "NVTX_INJECTION64_PATH";

/// The file for the findings of a program.
constexpr const char* kFindingsFile = "BERTH_SIM_FINDINGS";

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

/// `first`, followed by the value of the variable.
std::string in_front(const std::string& first, const char* name) {
  const std::string rest = variable(name);
  return rest.empty() ? first : first + ":" + rest;
}

/// Another `berth sim` that runs this one learns of it.
void note_in_outer_command() {
  const std::string outer = variable(kFindingsFile);
  if (outer.empty()) return;
  std::ofstream(outer, std::ios::app)
      << fmt::format("\n{{\"record\":\"inner_command\",\"pid\":{}}}\n", getpid());
}

SimSettings settings_of(const SimOptions& options) {
  SimSettings settings(variable("BERTH_SIM"));
  const auto set = [&](const char* key, const std::string& value, const char* option) {
    if (!value.empty()) settings.set(key, value, option);
  };
  set("devices", options.devices, "--devices");
  set("memory", options.memory, "--memory");
  set("checks", fmt::format("{}", fmt::join(options.checks, "/")), "--checks");
  set("faults", options.faults, "--faults");
  set("log", options.log, "--log");
  set("kernels", options.kernels, "--kernels");
  set("on_finding", options.on_finding, "--on-finding");
  set("call_sites", options.call_sites, "--call-sites");
  settings.set_default("call_sites", "on");
  if (options.seed || options.seeds != 0) settings.set("progress", "random", "--seeds");
  for (const std::string& pair : options.settings) settings.set_pair(pair, "--set");
  return settings;
}

/// The command line that runs the program again, up to the seed.
std::string command_again(const SimOptions& options) {
  std::vector<std::string> words = {"berth", "sim"};
  const auto add = [&](const char* option, const std::string& value) {
    if (!value.empty()) words.insert(words.end(), {option, value});
  };
  add("--devices", options.devices);
  add("--memory", options.memory);
  add("--checks", fmt::format("{}", fmt::join(options.checks, ",")));
  add("--faults", options.faults);
  add("--kernels", options.kernels);
  for (const std::string& pair : options.settings) add("--set", pair);
  add("--on-finding", options.on_finding);
  add("--call-sites", options.call_sites);
  add("--ignore", options.ignore);
  add("--libraries", options.libraries);
  if (options.preload) words.emplace_back("--preload");
  return shell_words(words);
}

class SimCommand {
 public:
  /// Errors  UsageError: invalid options. No program has been run then.
  explicit SimCommand(const SimOptions& options)
      : options_(options),
        libraries_(options.libraries),
        settings_(settings_of(options)),
        json_file_(options.json, "--json") {
    if (options.seed && options.seeds != 0)
      throw UsageError("--seed and --seeds exclude each other: one seed, or the seeds from 1 on");
    if (!options.ignore.empty() && options.on_finding == "abort")
      throw UsageError(
          "--ignore and --on-finding abort exclude each other: the program aborts before "
          "findings are compared with FILE");
    libraries_.check_configuration(settings_.text());
    report_.suppressions = read_suppressions(options.ignore);
    report_.configuration = settings_.text();
    report_.unchecked = unchecked_kinds(settings_.value("checks"));
    report_.again_before = command_again(options);
    report_.again_after = "-- " + shell_words(options.program);
  }

  ExitCode run() {
    CaughtSignals signals;
    const std::string failure = run_all(signals);
    signals.ignore_few();
    if (!failure.empty()) {
      print_error(failure);
      return static_cast<ExitCode>(report_.runs.back().exit_code);
    }
    report_.findings.find_source_lines();
    for (const SimFinding& finding : report_.findings.all()) {
      Suppression* const ignored_by = find_suppression(report_.suppressions, finding);
      if (ignored_by != nullptr) ++ignored_by->used;
      report_.ignored_by.push_back(ignored_by);
    }
    print_on_stderr(report_.text());
    if (json_file_.is_open()) json_file_.write(json_text(report_.json()));
    return static_cast<ExitCode>(report_.exit_code());
  }

 private:
  static void print_on_stderr(const std::string& text) {
    static_cast<void>(std::fwrite(text.data(), 1, text.size(), stderr));
  }

  /// The reason why the program was not started; empty if it was.
  std::string run_all(const CaughtSignals& signals) {
    const ScratchFolder scratch;
    note_in_outer_command();
    if (options_.seeds == 0) return run_once(options_.seed, scratch, signals).failure;
    for (int seed = 1; seed <= options_.seeds; ++seed) {
      if (isatty(STDERR_FILENO) != 0)
        print_on_stderr(fmt::format("berth sim: seed {} of {}, {} findings so far\n", seed,
                                    options_.seeds, report_.findings.all().size()));
      const ProgramEnd end = run_once(static_cast<std::uint64_t>(seed), scratch, signals);
      if (!end.failure.empty() || end.is_interrupted) return end.failure;
    }
    return "";
  }

  ProgramEnd run_once(std::optional<std::uint64_t> seed, const ScratchFolder& scratch,
                      const CaughtSignals& signals) {
    SimSettings settings = settings_;
    if (seed) settings.set("seed", fmt::to_string(*seed), "--seed");
    const std::string findings = scratch.file(fmt::format("{}.jsonl", report_.runs.size()));
    EnvironmentChanges environment = {
        {"BERTH_SIM", settings.text()},
        {kFindingsFile, findings},
        {"LD_LIBRARY_PATH", in_front(libraries_.folder(), "LD_LIBRARY_PATH")}};
    if (variable(kNvtxTool).empty()) environment[kNvtxTool] = libraries_.simulator();
    if (options_.preload)
      environment["LD_PRELOAD"] =
          in_front(fmt::format("{}", fmt::join(libraries_.files(), ":")), "LD_PRELOAD");
    ProgramEnd end = run_program(options_.program, environment, signals);
    report_.runs.push_back({seed, end.exit_code, end.signal});
    report_.findings.read(findings);
    return end;
  }

  const SimOptions& options_;
  SimLibraries libraries_;
  SimSettings settings_;
  SimReport report_;
  ReportFile json_file_;
};

void add_options(CommandOptions& command, SimOptions& options) {
  const ValueDescription file{{}, true};
  command.text("--devices", options.devices, "N", "Devices, 1 to 64; default: 1");
  command.text("--memory", options.memory, "SIZE",
               "Memory of each device, such as 24GiB,\nor one a device, 24GiB/80GiB");
  command.number("--seed", options.seed, "Runs work in the random legal order\nof this seed");
  command.count("--seeds", options.seeds, kSeedsMax,
                "Runs the program N times, with the\nseeds from 1 on");
  command.list("--checks", options.checks, "LIST",
               "off, or some of race,aliasing,leak,\nfault; default: all");
  command.text("--faults", options.faults, "RULES",
               "Calls that fail, such as\ncuMemAlloc@3=out_of_memory");
  command.choice("--kernels", options.kernels, "WHAT",
                 "refuse, skip or host: launches of\nkernels fail, do nothing, or are "
                 "host\nfunctions; default: refuse",
                 {"refuse", "skip", "host"});
  command.text("--log", options.log, "FILE",
               "Writes a line for each call and\npiece of work; on: to standard error", file);
  command.repeated("--set", options.settings, "KEY=VALUE",
                   "Any other setting of BERTH_SIM;\nmay be repeated");
  command.choice("--on-finding", options.on_finding, "WHAT",
                 "report at the end, or abort the\nprogram; default: report", {"report", "abort"});
  command.choice("--call-sites", options.call_sites, "WHICH",
                 "on or off: whether findings name the\ncode that made the calls; default: on",
                 {"on", "off"});
  command.text("--ignore", options.ignore, "FILE",
               "Findings to ignore: a line of PATTERN\n# REASON for each; * is any text", file);
  command.text("--json", options.json, "FILE", "Writes the findings as JSON", file);
  command.text("--libraries", options.libraries, "DIR",
               "The folder of the look-alike of\nlibcuda.so.1; default: the installed", file);
  command.flag("--preload", options.preload,
               "Loads the look-alikes first, for a\nprogram with its own library paths");
  command.program("PROGRAM", options.program, "After --: the program and its\narguments");
}

}  // namespace

void add_sim_command(CommandLine& berth) {
  const auto options = std::make_shared<SimOptions>();
  CommandOptions command =
      berth.add("sim", "Run a program on the simulated driver, and report its races",
                [options] { return SimCommand(*options).run(); });
  add_options(command, *options);
  command.footer(
      "The program finds a simulated CUDA driver and NVML in place of the machine's,\n"
      "and needs no GPU. Findings of all its processes are reported on standard error\n"
      "at its end. Options override BERTH_SIM, whose other settings apply.\n\n"
      "Examples:\n"
      "  berth sim -- python pipeline.py\n"
      "  berth sim --devices 4 --memory 24GiB --seeds 20 -- pytest tests/\n"
      "  berth sim --seed 3 --on-finding abort -- gdb --args ./pipeline\n",
      "Exit code: that of the program, 128 and the signal if one ended it; 1 also if\n"
      "there are findings, or some may be missing; 2 invalid usage, nothing was run, or\n"
      "NVIDIA's runtime was called, which cannot run; 126 the program cannot be\n"
      "executed, 127 it is not there.");
}

}  // namespace berth::tool
