// SPDX-License-Identifier: Apache-2.0
#include "trace/trace_csv.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <system_error>
#include <utility>

#include "base/counted.hpp"
#include "base/format.hpp"
#include "base/quoted.hpp"
#include "trace/trace_check.hpp"
#include "trace/trace_error.hpp"
#include "trace/trace_op.hpp"

namespace berth {
namespace {

constexpr std::string_view kColumns = "op,id,bytes,stream,device,t_us";
constexpr std::size_t kColumnCount = 6;
/// Two texts of a header line: their objects, three times while the list doubles, and their chunks.
constexpr std::uint64_t kHeaderLineBytes = 3 * 2 * sizeof(std::string) + 2 * 32;

std::string_view trimmed(std::string_view text) {
  const auto begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

class CsvParser {
 public:
  CsvParser(const std::string& name, std::string_view content, std::uint64_t host_bytes_max)
      : rest_(content), host_bytes_max_(host_bytes_max) {
    trace_.name = name;
    // Reserved at once, so that the events never exist twice.
    const auto lines = static_cast<std::uint64_t>(std::ranges::count(content, '\n')) + 1;
    trace_.events.reserve(std::min(lines, host_bytes_max / sizeof(TraceEvent)));
  }

  Trace parse() {
    read_header();
    std::string_view line;
    while (next_line(line)) {
      const TraceEvent event = parse_row(line);
      if (const auto problem = checker_.add(event, line_number_)) reject(*problem);
      if (!has_room()) reject(describe_host_limit(host_bytes_max_));
      trace_.events.push_back(event);
    }
    return std::move(trace_);
  }

 private:
  /// Whether one more event fits, in addition to the blocks.
  [[nodiscard]] bool has_room() const {
    return header_bytes_ + (trace_.events.size() + 1) * sizeof(TraceEvent) +
               checker_.bytes_held() <=
           host_bytes_max_;
  }

  [[noreturn]] void reject(std::string_view problem) const {
    reject_trace_line(trace_.name, line_number_, problem);
  }

  /// The next line that is not empty, without its end; false if there is none.
  bool next_line(std::string_view& line) {
    while (!rest_.empty()) {
      const auto end = rest_.find('\n');
      line = rest_.substr(0, end);
      rest_.remove_prefix(end == std::string_view::npos ? rest_.size() : end + 1);
      ++line_number_;
      if (line.ends_with('\r')) line.remove_suffix(1);
      if (!line.empty()) return true;
    }
    return false;
  }

  void read_header() {
    std::string_view line;
    while (next_line(line)) {
      if (line == kColumns) return;
      if (!line.starts_with('#'))
        reject(
            format_text("{} is no line of a trace's header; accepted: `# key: value` lines, "
                        "then {}; or a PyTorch memory snapshot",
                        quoted(line), kColumns));
      header_bytes_ += kHeaderLineBytes + line.size();
      if (header_bytes_ > host_bytes_max_) reject(describe_host_limit(host_bytes_max_));
      const auto colon = line.find(':');
      if (colon == std::string_view::npos)
        trace_.header.emplace_back("", trimmed(line.substr(1)));
      else
        trace_.header.emplace_back(trimmed(line.substr(1, colon - 1)),
                                   trimmed(line.substr(colon + 1)));
    }
    reject_trace(trace_.name, format_text("no line of column names; accepted: {}", kColumns));
  }

  TraceEvent parse_row(std::string_view line) const {
    const auto fields = split(line);
    TraceEvent event{};
    const auto op = parse_trace_op(fields[0]);
    if (!op)
      reject(
          format_text("{} is not an operation; accepted: {}", quoted(fields[0]), trace_op_words()));
    event.op = *op;
    event.id = parse_number<std::int64_t>("id", fields[1], is_block_op(*op) ? 0 : -1);
    event.bytes = parse_number<std::uint64_t>("bytes", fields[2], 0);
    event.stream = parse_number<std::int32_t>("stream", fields[3], 0);
    event.device = parse_number<std::int32_t>("device", fields[4], 0);
    event.time_us = parse_number<std::uint64_t>("t_us", fields[5], 0);
    return event;
  }

  std::array<std::string_view, kColumnCount> split(std::string_view line) const {
    std::array<std::string_view, kColumnCount> fields;
    std::size_t count = 0;
    std::size_t begin = 0;
    for (std::size_t end = 0; end != std::string_view::npos; begin = end + 1, ++count) {
      end = line.find(',', begin);
      if (count < kColumnCount) fields[count] = line.substr(begin, end - begin);
    }
    if (count != kColumnCount)
      reject(format_text("{} has {}; accepted: the {} of {}", quoted(line),
                         counted(count, "column"), kColumnCount, kColumns));
    return fields;
  }

  template <class Integer>
  Integer parse_number(const char* column, std::string_view text, Integer min) const {
    Integer number{};
    const char* const end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, number);
    if (error != std::errc() || stop != end || number < min)
      reject(format_text("{} is no {}; accepted: a whole number from {} to {}", quoted(text),
                         column, min, std::numeric_limits<Integer>::max()));
    return number;
  }

  std::string_view rest_;
  std::uint64_t host_bytes_max_;
  std::uint64_t header_bytes_ = 0;
  std::size_t line_number_ = 0;
  TraceChecker checker_{"line"};
  Trace trace_;
};

}  // namespace

Trace parse_trace_csv(const std::string& name, std::string_view content,
                      std::uint64_t host_bytes_max) {
  return CsvParser(name, content, host_bytes_max).parse();
}

}  // namespace berth
