// SPDX-License-Identifier: Apache-2.0
#include "sim/check/event_log.hpp"

#include <filesystem>
#include <system_error>

#include "berth/error.hpp"

#include "base/format.hpp"
#include "base/standard_error.hpp"
#include "sim/error_names.hpp"
#include "sim/work/stream.hpp"

namespace berth::sim {
namespace {

/// Devices such as /dev/null count as files.
bool is_file_or_new(const std::string& path) {
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(path, error);
  return !exists(status) || is_regular_file(status) || is_character_file(status);
}

struct Describe {
  std::string operator()(const WaitWork&) const { return "wait"; }
  std::string operator()(const RecordWork&) const { return "record of an event"; }
  std::string operator()(const HostFunctionWork&) const { return "host function"; }
  std::string operator()(const CopyWork& copy) const {
    return format_text("copy of {} B", copy.total());
  }
  std::string operator()(const FetchWork& fetch) const {
    return format_text("read of {} B", fetch.total());
  }
  std::string operator()(const MemsetWork& memset) const {
    return format_text("fill of {} B", memset.total());
  }
  std::string operator()(const KernelWork& kernel) const {
    if (kernel.name == nullptr) return format_text("kernel of {} ns", kernel.duration_ns);
    return format_text("kernel {} of {} ns", kernel.name, kernel.duration_ns);
  }
  std::string operator()(const ArriveWork& arrival) const {
    return format_text("allocation of {} B", arrival.range->bytes);
  }
  std::string operator()(const DepartWork& departure) const {
    return format_text("free of {} B", departure.range->bytes);
  }
  std::string operator()(const PrefetchWork& prefetch) const {
    return format_text("prefetch of {} B", prefetch.bytes);
  }
  std::string operator()(const WaitValueWork& wait) const {
    if (wait.event != nullptr) return "wait for an event of another process";
    return format_text("wait for the value {}", wait.value);
  }
  std::string operator()(const WriteValueWork& write) const {
    return format_text("write of the value {}", write.value);
  }
};

}  // namespace

EventLog::EventLog(const std::string& setting, Now now, bool alone)
    : on_(setting != "off"), to_stderr_(alone && setting == "on"), now_(std::move(now)) {
  if (!on_ || setting == "on") return;
  // Opening a pipe would wait for its reader.
  if (is_file_or_new(setting)) file_.open(setting, alone ? std::ios::app : std::ios::trunc);
  if (!file_.is_open())
    throw InvalidArgument(
        format_text("simulator: log={} cannot be written; accepted: off, on, or "
                    "the name of a file that can be",
                    setting));
}

void EventLog::call(const CallSite& call) {
  write(format_text("call {} {}", call.number, function_name(call.function)));
}

void EventLog::fails(const CallSite& call, CUresult result) {
  write(format_text("call {} {} fails: {}", call.number, function_name(call.function),
                    error_text(result)));
}

void EventLog::begins(const Stream& stream, const Operation& operation) {
  write("begins", stream, operation);
}

void EventLog::runs(const Stream& stream, const Operation& operation) {
  write("is done", stream, operation);
}

void EventLog::faults(const Stream& stream, const Operation& operation) {
  write("faults", stream, operation);
}

void EventLog::is_dropped(const Stream& stream, const Operation& operation) {
  write("is dropped, because its context has failed", stream, operation);
}

void EventLog::note(std::string_view what) {
  write(what);
}

void EventLog::write(std::string_view verb, const Stream& stream, const Operation& operation) {
  const std::size_t number = streams_.emplace(stream.handle, streams_.size() + 1).first->second;
  const CallSite& call = operation.call;
  write(format_text("operation {} (call {}) on stream {} {}: {}", operation.number,
                    call.launch != 0 ? call.launch : call.number, number, verb,
                    std::visit(Describe{}, operation.work)));
}

void EventLog::write(std::string_view what) {
  const std::string line = format_text("{:>12} ns  {}\n", now_(), what);
  if (file_.is_open())
    file_ << line << std::flush;  // the lines before a crash matter most
  else if (to_stderr_)
    write_to_stderr(line);
  else
    text_ += line;
}

}  // namespace berth::sim
