// SPDX-License-Identifier: Apache-2.0
// What tensors are computed with: kernels, and the seam to what runs them on a device.
#pragma once

#include <array>
#include <berth/stream.hpp>
#include <cstddef>
#include <cstdint>

// The text in the parentheses is compiled here, for the host, and kept as a string, for a GPU.
#define MINI_DEVICE_CODE(...) \
  __VA_ARGS__                 \
  inline constexpr const char* kDeviceCode = #__VA_ARGS__;
#define MINI_KERNEL inline

namespace mini::element {

// Each kernel computes element i of its output.
// clang-format off
MINI_DEVICE_CODE(
struct Args {
  const float* in[2];
  float* out;
  long size[4];
  float number;
};

MINI_KERNEL void fill(long i, const Args& a) { a.out[i] = a.number; }

// size: for each input 1, or 0 for a single number.
MINI_KERNEL void add(long i, const Args& a) {
  a.out[i] = a.in[0][i * a.size[0]] + a.in[1][i * a.size[1]];
}
MINI_KERNEL void subtract(long i, const Args& a) {
  a.out[i] = a.in[0][i * a.size[0]] - a.in[1][i * a.size[1]];
}
MINI_KERNEL void multiply(long i, const Args& a) {
  a.out[i] = a.in[0][i * a.size[0]] * a.in[1][i * a.size[1]];
}
MINI_KERNEL void add_scaled(long i, const Args& a) { a.out[i] += a.number * a.in[0][i]; }

// size: length of the sum, columns, and how far apart rows and columns of the left side are.
MINI_KERNEL void matmul(long i, const Args& a) {
  float sum = 0;
  const long row = i / a.size[1] * a.size[2];
  const long column = i % a.size[1];
  for (long j = 0; j < a.size[0]; ++j)
    sum += a.in[0][row + j * a.size[3]] * a.in[1][j * a.size[1] + column];
  a.out[i] = sum;
}
MINI_KERNEL void mean_square(long i, const Args& a) {
  float sum = 0;
  for (long j = 0; j < a.size[0]; ++j) sum += a.in[0][j] * a.in[0][j];
  a.out[i] = sum / a.size[0];
})
// clang-format on

}  // namespace mini::element

namespace mini {

using Args = element::Args;

struct Kernel {
  const char* name;
  void (*element)(long i, const Args& args);
};

/// Runs kernels on devices. One implementation is for GPUs, one for the simulator.
class Kernels {
 public:
  virtual ~Kernels() = default;
  /// Computes the elements 0 to count - 1 in the order of `stream`, on its device. `bytes`: the
  /// sizes of in[0], in[1] and out.
  virtual void launch(const Kernel& kernel, const Args& args,
                      const std::array<std::size_t, 3>& bytes, long count,
                      berth::StreamRef stream) = 0;
  /// The host reads or writes memory itself, now. The simulator checks that no copy does meanwhile.
  virtual void host_uses(const void* data, std::size_t bytes, bool writes) = 0;
  /// The time on the host: virtual on the simulator.
  virtual std::uint64_t now_ns() = 0;
};

}  // namespace mini
