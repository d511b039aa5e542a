// SPDX-License-Identifier: Apache-2.0
// Draws timelines into an SVG file, one below the other, over one axis of time.
#pragma once

#include <algorithm>
#include <fstream>
#include <iomanip>

#include "timeline.hpp"

namespace mini {

class Picture {
 public:
  /// Shows the first `us` microseconds.
  Picture(const std::string& path, int us, int timelines)
      : out_(path), us_(us), height_(kTop + timelines * kTimelineHeight + 40) {
    out_ << std::fixed << std::setprecision(1) << "<!-- SPDX-License-Identifier: Apache-2.0 -->\n"
         << "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" << kWidth << "\" height=\""
         << height_ << "\" font-family=\"sans-serif\" font-size=\"12\">\n"
         << "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n";
    double x = kLeft;
    for (const Kind& kind : kKinds) {
      rectangle(x, 12, 12, 12, kind.color);
      text(x + 18, 22, "start", kind.name);
      x += 120;
    }
    for (int tick = 0; tick <= us_; tick += 20) {
      out_ << "<line x1=\"" << x_of(tick) << "\" y1=\"" << kTop << "\" x2=\"" << x_of(tick)
           << "\" y2=\"" << height_ - 40 << "\" stroke=\"#dddddd\"/>\n";
      text(x_of(tick), height_ - 24, "middle", std::to_string(tick));
    }
    text(x_of(us_ / 2.0), height_ - 8, "middle", "microseconds");
  }
  ~Picture() { out_ << "</svg>\n"; }
  Picture(const Picture&) = delete;
  Picture& operator=(const Picture&) = delete;

  /// A row for the host, and two for each of two streams: copies and kernels.
  void add(const std::string& title, const std::vector<Span>& spans) {
    text(8, y_ + 14, "start", title, " font-weight=\"bold\"");
    y_ += 22;
    row("host", "", spans, "host", "L.");
    for (const std::string stream : {"side", "compute"}) {
      row(stream, ", copies", spans, stream, "c");
      row(stream, ", kernels", spans, stream, "k");
    }
    y_ += kTimelineHeight - 22 - 5 * kRowHeight;
  }

 private:
  struct Kind {
    char symbol;
    const char* name;
    const char* color;
  };
  static constexpr Kind kKinds[] = {{'L', "host loads", "#4c78a8"},
                                    {'.', "host waits", "#cccccc"},
                                    {'c', "copy", "#f58518"},
                                    {'k', "kernels", "#54a24b"}};
  static constexpr int kWidth = 900;
  static constexpr int kLeft = 130;
  static constexpr int kTop = 36;
  static constexpr int kRowHeight = 20;
  static constexpr int kTimelineHeight = 22 + 5 * kRowHeight + 14;

  [[nodiscard]] double x_of(double us) const { return kLeft + us * (kWidth - kLeft - 20) / us_; }

  void row(const std::string& name, const char* what, const std::vector<Span>& spans,
           const std::string& stream, const std::string& symbols) {
    text(kLeft - 8, y_ + 14, "end", name + what);
    for (const Span& span : spans) {
      if (span.stream != stream || symbols.find(span.symbol) == std::string::npos) continue;
      if (span.start_us >= us_) continue;
      const auto kind = std::find_if(std::begin(kKinds), std::end(kKinds),
                                     [&](const Kind& it) { return it.symbol == span.symbol; });
      const double start = x_of(span.start_us);
      rectangle(start, y_ + 3, x_of(std::min(span.end_us, double(us_))) - start, kRowHeight - 6,
                kind->color);
    }
    y_ += kRowHeight;
  }
  void rectangle(double x, int y, double width, int height, const char* color) {
    out_ << "<rect x=\"" << x << "\" y=\"" << y << "\" width=\"" << width << "\" height=\""
         << height << "\" fill=\"" << color << "\"/>\n";
  }
  void text(double x, int y, const char* anchor, const std::string& what, const char* more = "") {
    out_ << "<text x=\"" << x << "\" y=\"" << y << "\" text-anchor=\"" << anchor << '"' << more
         << '>' << what << "</text>\n";
  }

  std::ofstream out_;
  const int us_;
  const int height_;
  int y_ = kTop;
};

}  // namespace mini
