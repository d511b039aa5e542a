// SPDX-License-Identifier: Apache-2.0
#include <optional>

#include "picture.hpp"
#include "training.hpp"

using mini::Tensor;
using mini::Timeline;

constexpr int kSteps = 16;

/// Moves a pageable batch in each step, waits for it, and asks for each loss.
float train_with_stalls(mini::Regression& model, Timeline& timeline) {
  const berth::StreamRef compute = mini::library().stream("cuda:0");
  float loss = 0;
  for (int step = 0; step < kSteps; ++step) {
    Tensor batch(mini::Shape{mini::kRows, mini::kFeatures});
    timeline.on_host('L', [&] { batch.assign(mini::load(step)); });
    timeline.on_host('.', [&] {
      timeline.on_stream("compute", 'c', compute, [&] { batch = batch.to("cuda"); });
    });
    Tensor result;
    timeline.on_stream("compute", 'k', compute, [&] { result = model.train(batch); });
    timeline.on_host('.', [&] { loss = result.item(); });
  }
  return loss;
}

/// A batch on its way to the device.
struct Prefetched {
  Tensor batch;
  berth::EventLease arrived;
};

Prefetched prefetch(int step, berth::StreamRef side, Timeline& timeline) {
  Tensor batch(mini::Shape{mini::kRows, mini::kFeatures}, "cpu", true);
  timeline.on_host('L', [&] { batch.assign(mini::load(step)); });
  const berth::StreamGuard guard(side);  // the batch is allocated and copied on this stream
  timeline.on_stream("side", 'c', side, [&] { batch = batch.to("cuda", {.non_blocking = true}); });
  return {batch, mini::library().runtime.record(side)};
}

/// Copies the next batch on a second stream while the device computes, and asks for the last loss.
float train_with_prefetch(mini::Regression& model, Timeline& timeline) {
  berth::Runtime& runtime = mini::library().runtime;
  const berth::StreamRef compute = mini::library().stream("cuda:0");
  const berth::StreamLease side = runtime.streams(berth::Device::cuda(0)).acquire();
  Tensor loss;
  Prefetched next = prefetch(0, side, timeline);
  for (int step = 0; step < kSteps; ++step) {
    const Prefetched now = std::move(next);
    compute.wait(now.arrived);         // the device waits, not the host
    now.batch.record_stream(compute);  // its memory belongs to the other stream
    timeline.on_stream("compute", 'k', compute, [&] { loss = model.train(now.batch); });
    if (step + 1 < kSteps) next = prefetch(step + 1, side, timeline);
  }
  return loss.item();
}

double run(std::ostream& out, mini::Picture* picture, const char* name,
           float (*train)(mini::Regression&, Timeline&)) {
  mini::Regression model;
  model.to("cuda");
  mini::synchronize("cuda");
  Timeline timeline("cuda:0");
  const float loss = train(model, timeline);
  const double us = timeline.host_us();
  out << name << ": loss " << loss << '\n';
  if (picture != nullptr) {
    print(out, timeline.spans());
    picture->add(name, timeline.spans());
  }
  return us;
}

void chapter(std::ostream& out, bool timed) {
  std::ostringstream warm_up;  // memory and streams are cached from here on
  run(warm_up, nullptr, "", train_with_stalls);
  run(warm_up, nullptr, "", train_with_prefetch);

  std::optional<mini::Picture> picture;
  if (timed) picture.emplace("05_training.svg", 140, 2);
  mini::Picture* const drawn = timed ? &*picture : nullptr;
  const double stalling = run(out, drawn, "with stalls", train_with_stalls);
  const double prefetching = run(out, drawn, "with prefetch", train_with_prefetch);
  if (!timed) return;
  out << "factor " << stalling / prefetching << " (" << stalling << " us, " << prefetching
      << " us)\n";
}

int main(int argc, char** argv) {
  return mini::program(argc, argv, chapter, "devices=1");
}
