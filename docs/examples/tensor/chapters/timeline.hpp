// SPDX-License-Identifier: Apache-2.0
// Draws when streams and the host work, from events with timing and the clock of the host.
#pragma once

#include <cmath>
#include <deque>
#include <map>
#include <ostream>
#include <string>

#include "../core/library.hpp"

namespace mini {

class Timeline {
 public:
  /// Times count from now, when the device must be idle.
  explicit Timeline(Device device) : events_(library().runtime.events(device)) {
    origin_ = mark(library().stream(device));
    origin_ns_ = library().kernels->now_ns();
  }

  /// What `body` submits to `stream` is drawn with `symbol` in the row `row`.
  template <class Body>
  void on_stream(const std::string& row, char symbol, berth::StreamRef stream, const Body& body) {
    work_.push_back({row, symbol, mark(stream), {}});
    body();
    work_.back().end = mark(stream);
  }

  /// What the host does in `body`, likewise.
  template <class Body>
  void on_host(char symbol, const Body& body) {
    const double start = host_us();
    body();
    draw("host", symbol, start, host_us());
  }

  /// The time on the host since the start.
  [[nodiscard]] double host_us() const {
    return double(library().kernels->now_ns() - origin_ns_) / 1000;
  }

  /// The first `columns` * kMicrosecondsPerColumn microseconds. All work must be done.
  void print(std::ostream& out, std::size_t columns = 72) {
    for (const Work& work : work_) {
      const auto us = [&](const berth::EventLease& event) {
        return 1000 * double(berth::elapsed_ms(origin_, event));
      };
      draw(work.row, work.symbol, us(work.start), us(work.end));
    }
    work_.clear();
    for (auto& [row, symbols] : rows_) {
      symbols.resize(columns, ' ');
      out << row << std::string(8 - row.size(), ' ') << '|' << symbols << "|\n";
    }
  }

 private:
  static constexpr double kMicrosecondsPerColumn = 2;
  struct Work {
    std::string row;
    char symbol;
    berth::EventLease start;
    berth::EventLease end;
  };

  berth::EventLease mark(berth::StreamRef stream) {
    berth::EventLease event = events_.acquire({.timing = true});
    event->record(stream);
    return event;
  }

  void draw(const std::string& row, char symbol, double start_us, double end_us) {
    const auto first = std::size_t(std::lround(start_us / kMicrosecondsPerColumn));
    const auto last = std::size_t(std::lround(end_us / kMicrosecondsPerColumn));
    std::string& symbols = rows_[row];
    if (symbols.size() < last) symbols.resize(last, ' ');
    for (std::size_t column = first; column < last; ++column) symbols[column] = symbol;
  }

  berth::EventPool& events_;
  berth::EventLease origin_;
  std::uint64_t origin_ns_ = 0;
  std::deque<Work> work_;
  std::map<std::string, std::string> rows_;
};

}  // namespace mini
