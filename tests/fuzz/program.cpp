// SPDX-License-Identifier: Apache-2.0
#include "fuzz/program.hpp"

#include <charconv>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <unistd.h>

namespace berth::fuzz {
namespace {

const char* stop_text = "";
char running[256];

void print_running(int signal) {
  if (write(STDERR_FILENO, stop_text, std::strlen(stop_text)) < 0 ||
      write(STDERR_FILENO, running, std::strlen(running)) < 0 || write(STDERR_FILENO, "\n", 1) < 0)
    _exit(1);
  std::signal(signal, SIG_DFL);
  raise(signal);
}

}  // namespace

void name_inputs_in_signals(const char* text) {
  stop_text = text;
  for (const int signal : {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGTERM})
    std::signal(signal, &print_running);
}

void note_running(const std::string& input) {
  std::snprintf(running, sizeof(running), "%s", input.c_str());
}

std::string read_input(const char* program, const char* path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    std::fprintf(stderr, "%s: cannot read %s\n", program, path);
    std::exit(2);
  }
  return {std::istreambuf_iterator<char>(file), {}};
}

bool read_number(const std::string& text, std::uint64_t& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc{} && end == text.data() + text.size();
}

}  // namespace berth::fuzz

// A sanitizer aborts, so that the signal names the input.
extern "C" const char* __asan_default_options() {
  return "abort_on_error=1";
}
extern "C" const char* __ubsan_default_options() {
  return "abort_on_error=1:halt_on_error=1:print_stacktrace=1";
}
