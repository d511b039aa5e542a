// SPDX-License-Identifier: Apache-2.0
// What happens if the training loop forgets one of the two lines about its second stream.
#include "training.hpp"

using mini::Tensor;

void train(bool waits, bool records) {
  berth::Runtime& runtime = mini::library().runtime;
  const berth::StreamRef compute = mini::library().stream("cuda:0");
  const berth::StreamLease side = runtime.streams(berth::Device::cuda(0)).acquire();
  mini::Regression model;
  model.to("cuda");
  const Tensor host = mini::tensor(mini::load(0), {mini::kRows, mini::kFeatures}).pin_memory();
  for (int step = 0; step < 2; ++step) {
    const berth::StreamGuard guard(side);
    const Tensor batch = host.to("cuda", {.non_blocking = true});
    if (waits) compute.wait(runtime.record(side));
    if (records) batch.record_stream(compute);
    const berth::StreamGuard back(compute);
    model.train(batch);
  }  // the memory of the batch is free for the next one
  mini::synchronize("cuda");
}

void no_wait(std::ostream&, bool) {
  train(false, true);
}
void no_record_stream(std::ostream&, bool) {
  train(true, false);
}

int main() {
  for (const mini::Chapter mistake : {no_wait, no_record_stream})
    std::cout << mini::simulate(mistake, "devices=1", std::cout, false).at(0) << '\n';
}
