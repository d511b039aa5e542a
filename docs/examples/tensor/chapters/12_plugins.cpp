// SPDX-License-Identifier: Apache-2.0
#include "../io/checkpoint.hpp"
#include "other_device.hpp"
#include "program.hpp"

using mini::Tensor;

struct Pair : mini::Module {
  explicit Pair(float value = 0) : left(mini::full({2, 3}, value)), right(mini::full({4}, -value)) {
    parameter("left", left);
    parameter("right", right);
  }
  Tensor forward(const Tensor& input) override { return matmul(left, input); }

  Tensor left;
  Tensor right;
};

void show(std::ostream& out, const char* what, const Tensor& tensor) {
  out << what << " on " << tensor.device().to_string() << ':';
  for (const float value : tensor.values()) out << ' ' << value;
  out << '\n';
}

void chapter(std::ostream& out, bool) {
  mini::provide_devices("tpu");
  const Tensor numbers = mini::tensor({1, 2, 3, 4}, {4});
  const Tensor there = numbers.to("tpu");
  show(out, "from the CPU", there);
  show(out, "to another one", there.to("tpu:1"));
  show(out, "from a GPU", numbers.to("cuda:1").to("tpu:0"));
  show(out, "to a GPU", there.cuda(1));

  mini::show_error(out, [&] { numbers + there; });
  mini::show_error(out, [&] { there + numbers.to("cuda"); });
  mini::show_error(out, [&] { there + there; });
  mini::show_error(out, [&] { static_cast<void>(numbers.to("tpu:9")); });

  Pair saved(7);
  saved.to("cuda:1");
  save(saved, "gpu.safetensors");
  Pair loaded;
  load(loaded, "gpu.safetensors", berth::DeviceMap::parse("cuda:1=tpu:0"));
  show(out, "left", loaded.left);
  save(loaded, "tpu.safetensors");
  loaded.to("cpu");
  mini::show_error(
      out, [&] { load(loaded, "tpu.safetensors", berth::DeviceMap::parse("tpu:0=tpu:5")); });
  show(out, "right", loaded.right);
}

int main(int argc, char** argv) {
  return mini::program(argc, argv, chapter, "devices=2");
}
