// SPDX-License-Identifier: Apache-2.0
#include "../core/ops.hpp"
#include "program.hpp"

using mini::Tensor;

void chapter(std::ostream& out, bool) {
  const Tensor a = mini::tensor({1, 2, 3, 4, 5, 6}, {2, 3});
  out << "born on " << a.device().to_string() << '\n';

  const Tensor b = a.to("cuda");
  const Tensor c = b.cuda(1);
  const Tensor d = c.cpu();
  for (const Tensor& tensor : {b, c, d}) out << tensor.device().to_string() << ' ';
  out << (d.values() == a.values() ? "the same numbers\n" : "other numbers\n");
  const bool is_shared = b.to("cuda:0").data() == b.data();
  out << "already there: " << (is_shared ? "the same memory\n" : "a copy\n");

  // The host goes on while the copies are made.
  const Tensor pinned = a.pin_memory();
  const Tensor e = pinned.to("cuda", {.non_blocking = true});
  const Tensor back = e.to("cpu", {.non_blocking = true});
  mini::synchronize("cuda");
  out << (back.is_pinned() ? "pinned" : "pageable") << ", and the last number is "
      << back.values().back() << '\n';

  mini::show_error(out, [] { mini::zeros({2, 3}, "cuda:7"); });
  mini::show_error(out, [] { mini::tensor({1, 2}, {2}, "cuda:01"); });
  mini::show_error(out, [] { mini::zeros({1L << 40, 1L << 40}); });
}

int main(int argc, char** argv) {
  return mini::program(argc, argv, chapter, "devices=2");
}
