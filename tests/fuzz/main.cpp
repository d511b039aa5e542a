// SPDX-License-Identifier: Apache-2.0
// The fuzzer without libFuzzer: for every compiler, and bounded by the number of inputs.
//
//   fuzz_sim [--first N] [--count N]   all seeds, then random inputs by number; explains a single
//                                      one
//   fuzz_sim FILE...                   inputs that were found, explained
//   fuzz_sim --corpus DIR              writes the seeds, and the words for libFuzzer's dictionary
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>

#include "fuzz/actions.hpp"
#include "fuzz/generator.hpp"
#include "fuzz/program.hpp"
#include "fuzz/target.hpp"

namespace {

using namespace berth::fuzz;

void run_named(const std::string& name, const std::string& bytes) {
  note_running(name);
  run_input(bytes);
}

/// A single input is asked for because of what it did.
void run_many(std::uint64_t first, std::uint64_t count) {
  if (count == 1) {
    explain();
    run_named("", random_input(first));
    return;
  }
  for (const Seed& seed : seeds()) run_named(seed.name, seed.bytes);
  for (std::uint64_t number = first; number != first + count; ++number)
    run_named("--count 1 --first " + std::to_string(number), random_input(number));
  std::printf("%zu seeds, %llu random inputs from number %llu\n", seeds().size(),
              static_cast<unsigned long long>(count), static_cast<unsigned long long>(first));
}

/// What never succeeded was tested for its refusals alone: somebody should know.
void show_reach() {
  std::string never;
  Tally all;
  for (std::size_t i = 0; i < actions().size(); ++i) {
    all.taken += tallies()[i].taken;
    all.succeeded += tallies()[i].succeeded;
    if (tallies()[i].succeeded == 0) never.append(" ").append(actions()[i].name);
  }
  std::printf("%llu of %llu actions succeeded; ", static_cast<unsigned long long>(all.succeeded),
              static_cast<unsigned long long>(all.taken));
  std::printf("never succeeded:%s\n", never.empty() ? " none" : never.c_str());
}

void run_file(const char* path) {
  const std::string bytes = read_input("fuzz_sim", path);
  explain();
  run_named(path, bytes);
}

void write_corpus(const std::filesystem::path& folder) {
  std::filesystem::create_directories(folder / "seeds");
  for (const Seed& seed : seeds())
    std::ofstream(folder / "seeds" / seed.name, std::ios::binary) << seed.bytes;
  std::ofstream dictionary(folder / "words");
  for (const std::string& word : words()) dictionary << '"' << word << "\"\n";
}

int misused() {
  std::fputs("usage: fuzz_sim [--first N] [--count N] | FILE... | --corpus DIR\n", stderr);
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  name_inputs_in_signals("fuzz_sim: stopped by the input ");
  std::uint64_t first = 1;
  std::uint64_t count = 1000;
  bool from_files = false;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (!argument.starts_with("--")) {
      run_file(argv[i]);
      from_files = true;
      continue;
    }
    if (++i == argc) return misused();
    const std::string value = argv[i];
    if (argument == "--corpus") {
      write_corpus(value);
      return 0;
    }
    if (argument != "--first" && argument != "--count") return misused();
    std::uint64_t& number = argument == "--first" ? first : count;
    if (!read_number(value, number)) return misused();
  }
  if (from_files || count == 1) {
    if (!from_files) run_many(first, count);
    return 0;
  }
  run_many(first, count);
  show_reach();
  return 0;
}
