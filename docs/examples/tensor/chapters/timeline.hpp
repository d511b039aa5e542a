// SPDX-License-Identifier: Apache-2.0
// When streams and the host work, from events with timing and the clock of the host.
#pragma once

#include <cmath>
#include <deque>
#include <map>
#include <ostream>
#include <string>
#include <vector>

#include "../core/library.hpp"

namespace mini {

/// Work of a stream or of the host. Times are microseconds since the start.
struct Span {
  std::string stream;  ///< its name, or "host"
  char symbol;
  double start_us;
  double end_us;
};

class Timeline {
 public:
  /// Times count from now, when the device must be idle.
  explicit Timeline(Device device) : events_(library().runtime.events(device)) {
    origin_ = mark(library().stream(device));
    origin_ns_ = library().kernels->now_ns();
  }

  /// What `body` submits to `stream`.
  template <class Body>
  void on_stream(const std::string& name, char symbol, berth::StreamRef stream, const Body& body) {
    work_.push_back({name, symbol, mark(stream), {}});
    body();
    work_.back().end = mark(stream);
  }

  /// What the host does in `body`.
  template <class Body>
  void on_host(char symbol, const Body& body) {
    const double start = host_us();
    body();
    spans_.push_back({"host", symbol, start, host_us()});
  }

  /// The time on the host since the start.
  [[nodiscard]] double host_us() const {
    return double(library().kernels->now_ns() - origin_ns_) / 1000;
  }

  /// Everything so far, which must be done.
  [[nodiscard]] std::vector<Span> spans() const {
    std::vector<Span> all = spans_;
    for (const Work& work : work_) {
      const auto us = [&](const berth::EventLease& event) {
        return 1000 * double(berth::elapsed_ms(origin_, event));
      };
      all.push_back({work.stream, work.symbol, us(work.start), us(work.end)});
    }
    return all;
  }

 private:
  struct Work {
    std::string stream;
    char symbol;
    berth::EventLease start;
    berth::EventLease end;
  };

  berth::EventLease mark(berth::StreamRef stream) {
    berth::EventLease event = events_.acquire({.timing = true});
    event->record(stream);
    return event;
  }

  berth::EventPool& events_;
  berth::EventLease origin_;
  std::uint64_t origin_ns_ = 0;
  std::deque<Work> work_;
  std::vector<Span> spans_;
};

/// A row for the host, the copies and the kernels, with a symbol for each 2 us.
inline void print(std::ostream& out, const std::vector<Span>& spans) {
  constexpr double kColumnUs = 2;
  constexpr std::size_t kColumns = 72;
  std::map<std::string, std::string> rows;
  for (const Span& span : spans) {
    const bool is_host = span.stream == "host";
    std::string& row = rows[is_host ? "host" : span.symbol == 'c' ? "copies" : "kernels"];
    row.resize(kColumns, ' ');
    const auto last = std::size_t(std::lround(span.end_us / kColumnUs));
    for (auto at = std::size_t(std::lround(span.start_us / kColumnUs)); at < last; ++at)
      if (at < kColumns) row[at] = span.symbol;
  }
  for (const auto& [name, row] : rows)
    out << name << std::string(8 - name.size(), ' ') << '|' << row << "|\n";
}

}  // namespace mini
