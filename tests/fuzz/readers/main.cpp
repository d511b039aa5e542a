// SPDX-License-Identifier: Apache-2.0
// The readers' fuzzer without libFuzzer: for every compiler, and bounded by the number of inputs.
//
//   fuzz_readers [--first N] [--count N]  every target: its seeds, then damaged ones by number
//   fuzz_readers TARGET FILE...           inputs that were found
//   fuzz_readers --corpus DIR             writes each target's seeds, and words for libFuzzer
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "fuzz/program.hpp"
#include "fuzz/readers/targets.hpp"
#include "support/byte_mutator.hpp"

namespace {

using namespace berth::fuzz;

void run_named(const ReaderTarget& target, const std::string& name, const std::string& bytes) {
  note_running(fmt::format("{}: {}", target.name, name));
  target.run(bytes);
}

void run_many(const ReaderTarget& target, std::uint64_t first, std::uint64_t count) {
  const std::vector<std::string> seeds = target.seeds();
  for (std::size_t i = 0; i < seeds.size(); ++i)
    run_named(target, "seed " + std::to_string(i), seeds[i]);
  for (std::uint64_t number = first; number != first + count; ++number) {
    berth::test::ByteMutator mutator(number, target.words);
    run_named(target, "--count 1 --first " + std::to_string(number),
              mutator.mutate(seeds[number % seeds.size()]));
  }
}

int run_files(const char* name, std::span<char* const> paths) {
  const ReaderTarget* const target = find_reader_target(name);
  if (target == nullptr) {
    std::fprintf(stderr, "fuzz_readers: no target \"%s\"\n", name);
    return 2;
  }
  for (const char* const path : paths) run_named(*target, path, read_input("fuzz_readers", path));
  return 0;
}

/// A word as libFuzzer's dictionaries spell it.
std::string dictionary_line(std::string_view word) {
  std::string line = "\"";
  for (const char c : word) line += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
  return line + "\"\n";
}

void write_corpus(const std::filesystem::path& folder) {
  for (const ReaderTarget& target : reader_targets()) {
    const std::filesystem::path own = folder / target.name;
    std::filesystem::create_directories(own / "seeds");
    const std::vector<std::string> seeds = target.seeds();
    for (std::size_t i = 0; i < seeds.size(); ++i)
      std::ofstream(own / "seeds" / std::to_string(i), std::ios::binary) << seeds[i];
    std::ofstream dictionary(own / "words");
    for (const std::string_view word : target.words) dictionary << dictionary_line(word);
  }
}

int print_usage() {
  std::fputs(
      "usage: fuzz_readers [--first N] [--count N] | TARGET FILE... | --corpus DIR\n"
      "targets:",
      stderr);
  for (const ReaderTarget& target : reader_targets())
    std::fprintf(stderr, " %s", target.name.data());
  std::fputs("\n", stderr);
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  name_inputs_in_signals("fuzz_readers: stopped by ");
  if (argc > 2 && argv[1][0] != '-')
    return run_files(argv[1], std::span(argv + 2, static_cast<std::size_t>(argc - 2)));
  std::uint64_t first = 1;
  std::uint64_t count = 1000;
  for (int i = 1; i < argc; i += 2) {
    const std::string argument = argv[i];
    if (i + 1 == argc) return print_usage();
    const std::string value = argv[i + 1];
    if (argument == "--corpus") {
      write_corpus(value);
      return 0;
    }
    if (argument != "--first" && argument != "--count") return print_usage();
    std::uint64_t& number = argument == "--first" ? first : count;
    if (!read_number(value, number)) return print_usage();
  }
  for (const ReaderTarget& target : reader_targets()) run_many(target, first, count);
  std::printf("%zu targets, %llu damaged inputs each from number %llu\n", reader_targets().size(),
              static_cast<unsigned long long>(count), static_cast<unsigned long long>(first));
  return 0;
}
