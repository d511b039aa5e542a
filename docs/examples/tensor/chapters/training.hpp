// SPDX-License-Identifier: Apache-2.0
// A model with one layer, its training step, and data. Shared by programs of the tutorial.
#pragma once

#include "../core/module.hpp"
#include "program.hpp"

namespace mini {

constexpr long kRows = 64;
constexpr long kFeatures = 128;
constexpr long kOutputs = 8;

/// Reads and decodes a batch, which takes the host 10 us. On a GPU, the host does it in no time.
inline std::vector<float> load(int step) {
  if (simulator != nullptr) simulator->spend(10'000);
  std::vector<float> values(std::size_t(kRows * kFeatures));
  for (std::size_t index = 0; index < values.size(); ++index)
    values[index] = float((index * 7 + std::size_t(step) * 3) % 11) / 11;
  return values;
}

/// Learns to map every row to ones.
struct Regression : Module {
  Regression() { parameter("weight", weight); }
  Tensor forward(const Tensor& input) override { return matmul(input, weight); }

  /// One step of gradient descent. Returns the loss, on the device.
  Tensor train(const Tensor& input) {
    const Tensor ones = full({1}, 1, input.device());
    const Tensor error = forward(input) - ones;
    add_scaled(weight, matmul(input, error, true), -0.01F / kRows);
    return mean_square(error);
  }

  Tensor weight = zeros({kFeatures, kOutputs});
};

}  // namespace mini
