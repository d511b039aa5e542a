// SPDX-License-Identifier: Apache-2.0
// Every planted misuse is caught in every mode, whatever the order in which its work happened to
// run, and by nothing but its own report; without the plant nothing is found and nothing is left.
#include "sim/misuses/misuse.hpp"

#include <fmt/format.h>

namespace misuse_test {

using namespace berth;
using namespace berth::test;

namespace {

std::vector<std::string> modes() {
  std::vector<std::string> modes = {"progress=eager", "progress=manual", "progress=timed"};
  for (int seed = 1; seed <= 40; ++seed) {
    modes.push_back(fmt::format("progress=random,seed={}", seed));
    modes.push_back(fmt::format("progress=timed,jitter=90,seed={}", seed));
  }
  return modes;
}

/// Without what every finding of its kind ends with. Which of two uses is named first goes by which
/// ran first, so here it goes by the alphabet.
std::string canonical(std::string finding) {
  for (const std::string_view tail :
       {"; nothing orders the one after the other", "; nothing waited for that",
        ", and nothing orders the one after the other"})
    if (finding.ends_with(tail)) finding.resize(finding.size() - tail.size());
  const std::size_t place = std::min(finding.find("; both are in graph "), finding.size());
  const std::string both = finding.substr(place);
  finding.resize(place);
  const std::string_view head = "race: ";
  const std::string_view between = ", while ";
  const std::size_t middle = finding.find(between);
  const bool is_pair =
      finding.starts_with(head) && middle != finding.npos && finding.find(" ends ") == finding.npos;
  if (!is_pair) return finding;
  const std::string first = finding.substr(head.size(), middle - head.size());
  const std::string second = finding.substr(middle + between.size());
  return fmt::format("{}{}{}{}{}", head, std::min(first, second), between, std::max(first, second),
                     both);
}

std::vector<std::string> findings_of(Machine& machine) {
  std::vector<std::string> findings = machine.findings();
  for (std::string& finding : findings) finding = canonical(finding);
  return findings;
}

/// Runs `program` and ends what it has not; empty where there is nothing to say about that.
std::vector<std::string> run(Machine& machine, void (*program)(Machine&)) {
  program(machine);
  machine.sim.run_all();
  const std::vector<std::string> findings = findings_of(machine);
  if (!findings.empty()) return findings;
  machine.close();
  return machine.alive();
}

/// All that the simulator has to say about a run of `misuse`, a line each.
std::string reports(const Misuse& misuse, const std::string& mode, bool planted) {
  const char* const comma = *misuse.options == 0 ? "" : ",";
  Machine machine(fmt::format("{}{}{}", mode, comma, misuse.options), planted);
  std::vector<std::string> reports;
  try {
    reports = run(machine, misuse.program);
  } catch (const Failure& failure) {
    reports.push_back(failure.report);
  }
  for (const std::string& finding : findings_of(machine)) reports.push_back(finding);
  return fmt::to_string(fmt::join(reports, "\n"));
}

/// In every mode, with its mistake and without.
void check_misuse(const Misuse& misuse) {
  const std::string_view what = misuse.what;
  CAPTURE(what);
  int faults = 0;
  int runs = 0;
  for (const std::string& mode : modes()) {
    CAPTURE(mode);
    CHECK(reports(misuse, mode, false) == "");
    const std::string caught = reports(misuse, mode, true);
    ++runs;
    if (misuse.fault != nullptr && caught == misuse.fault)
      ++faults;
    else
      CHECK(caught == canonical(misuse.report));
  }
  const bool is_either = misuse.fault != nullptr;
  CHECK((faults > 0) == is_either);
  CHECK(faults < runs);
}

void check_all(std::span<const Misuse> misuses) {
  for (const Misuse& misuse : misuses) check_misuse(misuse);
}

}  // namespace

TEST_CASE("a missing order between streams is reported with both uses") {
  check_all(order_misuses());
}

TEST_CASE("memory freed during work, or used after its free, is reported") {
  check_all(lifetime_misuses());
}

TEST_CASE("use of stream-ordered memory and values out of order is reported") {
  check_all(pool_misuses());
}

TEST_CASE("a wrong address, size or access is refused, or faults") {
  check_all(address_misuses());
}

TEST_CASE("a wrong, missing or ended context is refused") {
  check_all(context_misuses());
}

TEST_CASE("stale and unsuitable handles and driver calls in callbacks are refused") {
  check_all(handle_misuses());
}

TEST_CASE("violations of capture rules and unordered graphs are reported") {
  check_all(graph_misuses());
}

TEST_CASE("leaked objects are listed as alive") {
  check_all(leak_misuses());
}

TEST_CASE("a program whose progress depends on timing is reported") {
  check_all(progress_misuses());
}

}  // namespace misuse_test
