// SPDX-License-Identifier: Apache-2.0
#include <fstream>

#include "../io/checkpoint.hpp"
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

void show(std::ostream& out, const Pair& pair) {
  out << "left: " << pair.left.values()[0] << " on " << pair.left.device().to_string()
      << ", right: " << pair.right.values()[0] << " on " << pair.right.device().to_string() << '\n';
}

/// Writes a file that is the first `bytes` bytes of another one.
void cut(const std::string& from, const std::string& to, std::uintmax_t bytes) {
  std::filesystem::copy_file(from, to, std::filesystem::copy_options::overwrite_existing);
  std::filesystem::resize_file(to, bytes);
}

void chapter(std::ostream& out, bool) {
  const std::string path = "pair.safetensors";
  Pair saved(7);
  saved.left = saved.left.to("cuda:0");
  saved.right = saved.right.to("cuda:1");
  save(saved, path);

  Pair loaded;
  load(loaded, path);
  show(out, loaded);
  load(loaded, path, berth::DeviceMap::parse("cuda:1=cuda:0"));
  show(out, loaded);
  load(loaded, path, berth::DeviceMap::all_to(mini::Device("cpu")));
  show(out, loaded);

  // Saved on more devices than there are here.
  mini::show_error(out, [&] { load(loaded, path, berth::DeviceMap::parse("cuda:1=cuda:3")); });
  const std::uintmax_t bytes = std::filesystem::file_size(path);
  for (const std::uintmax_t left : {bytes - 1, std::uintmax_t{100}, std::uintmax_t{3}}) {
    cut(path, "cut.safetensors", left);
    mini::show_error(out, [&] { load(loaded, "cut.safetensors"); });
  }
  const std::string header = "{\"left\":{\"shape\":[0],\"data_offsets\":[0,0]}}";
  std::ofstream("untyped.safetensors") << char(header.size()) << std::string(7, '\0') << header;
  mini::show_error(out, [&] { load(loaded, "untyped.safetensors"); });
  mini::show_error(out, [&] { load(loaded, "missing.safetensors"); });
  show(out, loaded);
}

int main(int argc, char** argv) {
  return mini::program(argc, argv, chapter, "devices=2");
}
