// SPDX-License-Identifier: Apache-2.0
// Two mistakes with non_blocking copies.
#include "../core/ops.hpp"
#include "program.hpp"

using mini::Tensor;

void read_too_early(std::ostream& out, bool) {
  const Tensor result = mini::full({1000}, 1, "cuda");
  const Tensor host = result.to("cpu", {.non_blocking = true});
  const float first = host.values()[0];  // mini::synchronize("cuda") is missing
  out << "read " << first << '\n';
}

void overwrite_too_early(std::ostream&, bool) {
  Tensor batch = mini::full({1000}, 1).pin_memory();
  const Tensor moved = batch.to("cuda", {.non_blocking = true});
  batch.assign(std::vector<float>(1000, 2));  // the copy may not have read the old numbers
}

int main() {
  for (const mini::Chapter mistake : {read_too_early, overwrite_too_early})
    for (const std::string& finding : mini::simulate(mistake, "devices=1", std::cout, false))
      std::cout << finding << '\n';
}
