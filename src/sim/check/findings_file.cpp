// SPDX-License-Identifier: Apache-2.0
#include "sim/check/findings_file.hpp"

#include <climits>
#include <fcntl.h>
#include <sys/types.h>
#include <unistd.h>
#include <utility>

#include "base/env.hpp"
#include "base/format.hpp"
#include "base/json_writer.hpp"
#include "sim/check/call_stacks.hpp"

namespace berth::sim {
namespace {

/// The path of the running program; empty if unknown.
std::string program_file() {
  char path[PATH_MAX];
  const ssize_t length = readlink("/proc/self/exe", path, sizeof path);
  return length < 0 ? std::string() : std::string(path, static_cast<std::size_t>(length));
}

/// Whether the last line has no end, because a process was killed while it wrote.
bool has_open_line(int file) {
  char last = '\n';
  const off_t bytes = lseek(file, 0, SEEK_END);
  return bytes > 0 && pread(file, &last, 1, bytes - 1) == 1 && last != '\n';
}

std::string path_of_file() {
  return trusted_env("BERTH_SIM_FINDINGS").value_or("");
}

// Opened each time: the program may close unknown descriptors, and fork.
bool append_line(const std::string& path, std::string_view line) {
  const int file = open(path.c_str(), O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
  if (file < 0) return false;
  const std::string whole = format_text("{}{}\n", has_open_line(file) ? "\n" : "", line);
  const ssize_t written = ::write(file, whole.data(), whole.size());
  close(file);
  return written == static_cast<ssize_t>(whole.size());
}

JsonWriter begin_record(std::string_view record) {
  JsonWriter json;
  json.begin_object().field("record", record).field("pid", getpid());
  return json;
}

}  // namespace

FindingsFile::FindingsFile(bool on) {
  if (!on) return;
  path_ = path_of_file();
  if (path_.empty()) return;
  JsonWriter json = begin_record("process");
  json.field("program", std::string_view(program_file())).end_object();
  static_cast<void>(write(std::move(json).take()));
}

bool FindingsFile::add(const Finding& finding, std::string_view mistake, std::uint64_t seed) {
  if (path_.empty()) return false;
  JsonWriter json = begin_record("finding");
  json.field("kind", finding.kind())
      .field("text", std::string_view(finding.text))
      .field("seed", seed);
  if (finding.uses.empty()) json.field("mistake", mistake);
  json.key("uses").begin_array();
  for (const FindingUse& use : finding.uses) {
    json.begin_object()
        .field("call", std::string_view(use.call))
        .field("does", use.does)
        .field("bytes", use.bytes)
        .key("frames")
        .begin_array();
    if (use.stack != nullptr) append_frames(json, *use.stack);
    json.end_array().end_object();
  }
  json.end_array().end_object();
  return write(std::move(json).take());
}

bool FindingsFile::note_more(std::uint64_t count) {
  if (path_.empty()) return false;
  JsonWriter json = begin_record("more");
  json.field("count", count).end_object();
  return write(std::move(json).take());
}

void FindingsFile::note_private_table(const char* module) {
  if (path_.empty() || !private_tables_.insert(module).second) return;
  JsonWriter json = begin_record("private_table");
  json.field("module", std::string_view(module)).end_object();
  static_cast<void>(write(std::move(json).take()));
}

void FindingsFile::note_failed_call(std::string_view call, std::string_view error,
                                    const CallStack* stack) {
  if (path_.empty()) return;
  JsonWriter json = begin_record("failed_call");
  json.field("call", call).field("error", error).key("frames").begin_array();
  if (stack != nullptr) append_frames(json, *stack);
  json.end_array().end_object();
  static_cast<void>(write(std::move(json).take()));
}

bool FindingsFile::note_count(std::string_view record, std::uint64_t count, bool is_final) {
  if (path_.empty()) return false;
  JsonWriter json = begin_record(record);
  json.field("count", count).field("final", is_final).end_object();
  return write(std::move(json).take());
}

bool FindingsFile::write(std::string_view line) const {
  return append_line(path_, line);
}

void note_version_query(int version) {
  static pid_t noted = 0;
  const std::string path = path_of_file();
  if (path.empty() || std::exchange(noted, getpid()) == getpid()) return;
  JsonWriter json = begin_record("version");
  json.field("version", version).end_object();
  static_cast<void>(append_line(path, std::move(json).take()));
}

}  // namespace berth::sim
