// SPDX-License-Identifier: Apache-2.0
#include "tool/progress_bar.hpp"

#include <algorithm>
#include <cstdio>
#include <sys/ioctl.h>
#include <unistd.h>

#include <fmt/format.h>

namespace berth::tool {
namespace {

using namespace std::chrono_literals;

constexpr const char* kEraseLine = "\r\033[K";

std::size_t terminal_columns() {
  winsize size{};
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 80;
  return size.ws_col;
}

}  // namespace

std::string progress_line(const std::string& label, std::size_t done, std::size_t total,
                          std::size_t width) {
  constexpr std::size_t kFixedWidth = sizeof("  []  100 %") - 1;
  constexpr std::size_t kBarWidthMin = 10;
  constexpr std::size_t kBarWidthMax = 40;
  const double fraction = total == 0 ? 1.0 : double(std::min(done, total)) / double(total);

  const std::size_t room = width > kFixedWidth ? width - kFixedWidth : 0;
  if (room < kBarWidthMin) return fmt::format("{:.0f} %", fraction * 100).substr(0, width);
  const std::size_t label_width = std::min(label.size(), room - kBarWidthMin);
  const std::size_t bar_width = std::min(room - label_width, kBarWidthMax);
  const auto filled = std::size_t(fraction * double(bar_width));
  return fmt::format("{}  [{:#<{}}{:-<{}}]  {:3.0f} %", label.substr(0, label_width), "", filled,
                     "", bar_width - filled, fraction * 100);
}

ProgressBar::ProgressBar(std::string label, std::size_t total, std::chrono::milliseconds patience)
    : label_(std::move(label)),
      total_(total),
      on_terminal_(isatty(STDERR_FILENO) != 0),
      next_draw_(Clock::now() + patience) {}

ProgressBar::~ProgressBar() {
  if (drawn_) std::fputs(kEraseLine, stderr);
}

void ProgressBar::update(std::size_t done) {
  if (!on_terminal_) return;
  const Clock::time_point now = Clock::now();
  if (now < next_draw_) return;
  next_draw_ = now + 100ms;
  drawn_ = true;
  // One column stays free: a full line would wrap on some terminals.
  const std::string line = progress_line(label_, done, total_, terminal_columns() - 1);
  std::fputs((kEraseLine + line).c_str(), stderr);
}

}  // namespace berth::tool
