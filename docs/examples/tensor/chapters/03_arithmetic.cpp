// SPDX-License-Identifier: Apache-2.0
#include "../core/ops.hpp"
#include "program.hpp"

using mini::Tensor;

void chapter(std::ostream& out, bool) {
  for (const char* device : {"cpu", "cuda:1"}) {
    const Tensor a = mini::tensor({1, 2, 3, 4}, {2, 2}, device);
    const Tensor b = mini::full({2, 2}, 10, device);
    const Tensor c = matmul(a + b, a) - a * b;
    out << "on " << c.device().to_string() << ':';
    for (const float value : c.values()) out << ' ' << value;
    out << '\n';
  }

  // A single number may be on the CPU.
  const Tensor half = mini::tensor({0.5}, {1});
  const Tensor d = half * mini::full({3}, 8, "cuda");
  out << "half of 8 on " << d.device().to_string() << ": " << d.values()[0] << '\n';

  const Tensor here = mini::full({3}, 1, "cuda:0");
  const Tensor there = mini::full({3}, 1, "cpu");
  mini::show_error(out, [&] { here + there; });
  mini::show_error(out, [&] { there + here; });
  mini::show_error(out, [&] { here + mini::full({4}, 1, "cuda:0"); });
  mini::show_error(out, [&] { matmul(here, here); });
  mini::show_error(out, [&] {
    Tensor target = here;
    add_scaled(target, mini::full({4}, 1, "cuda:0"), 2);
  });
  out << "no numbers: " << (mini::zeros({0, 3}, "cuda") * half).values().size() << '\n';
}

int main(int argc, char** argv) {
  return mini::program(argc, argv, chapter, "devices=2");
}
