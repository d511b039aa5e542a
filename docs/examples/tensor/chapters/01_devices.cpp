// SPDX-License-Identifier: Apache-2.0
#include "program.hpp"

void chapter(std::ostream& out, bool) {
  // The line that makes a program run everywhere.
  const mini::Device device = mini::is_available() ? "cuda" : "cpu";
  out << mini::device_count() << " devices: the program runs on " << device.to_string() << '\n';

  mini::show_error(out, [&] {
    out << "current: " << mini::current_device().to_string() << '\n';
    mini::set_device("cuda:1");
    out << "current: " << mini::current_device().to_string() << '\n';
    out << "cuda is " << mini::devices().resolve(mini::Device("cuda")).to_string() << '\n';
  });
  mini::show_error(out, [] { mini::Device("gpu:0"); });
  mini::show_error(out, [] { mini::set_device("cuda:2"); });
}

int main(int argc, char** argv) {
  return mini::program(argc, argv, chapter, "devices=2");
}
