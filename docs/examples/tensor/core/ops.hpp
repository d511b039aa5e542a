// SPDX-License-Identifier: Apache-2.0
// Arithmetic. The operands of an operation must be on one device, where the result is, too.
#pragma once

#include "tensor.hpp"

namespace mini {

/// Computes `out` from up to two inputs on its device, which the inputs share.
inline void run(const Kernel& kernel, const std::vector<Tensor>& in, Tensor& out,
                const std::vector<long>& sizes, float number = 0) {
  if (out.elements() == 0) return;
  Kernels& kernels = *library().kernels;
  Args args{{nullptr, nullptr}, out.data(), {}, number};
  std::array<std::size_t, 3> bytes{0, 0, out.bytes()};
  for (std::size_t index = 0; index < in.size(); ++index) {
    args.in[index] = in[index].data();
    bytes[index] = in[index].bytes();
  }
  std::copy(sizes.begin(), sizes.end(), args.size);
  if (!out.device().is_cpu()) {
    kernels.launch(kernel, args, bytes, out.elements(), library().stream(out.device()));
    return;
  }
  for (const Tensor& input : in) kernels.host_uses(input.data(), input.bytes(), false);
  kernels.host_uses(out.data(), out.bytes(), true);
  for (long i = 0; i < out.elements(); ++i) kernel.element(i, args);
}

inline Tensor full(Shape shape, float value, Device device = "cpu") {
  Tensor made(std::move(shape), device);
  run({"fill", element::fill}, {}, made, {}, value);
  return made;
}
inline Tensor zeros(Shape shape, Device device = "cpu") {
  return full(std::move(shape), 0, device);
}

constexpr const char* kHint = "call .to(\"{device}\")";

/// An operation on elements. A single number may be on the CPU, whatever the other operand is on.
inline Tensor elementwise(const Kernel& kernel, const Tensor& a, const Tensor& b) {
  const auto is_number_for = [](const Tensor& number, const Tensor& other) {
    return number.elements() == 1 && number.device().is_cpu() && !other.device().is_cpu();
  };
  if (is_number_for(a, b)) return elementwise(kernel, a.to(b.device(), {.non_blocking = true}), b);
  if (is_number_for(b, a)) return elementwise(kernel, a, b.to(a.device(), {.non_blocking = true}));
  berth::require_same_device(kernel.name, {{"left", a.device()}, {"right", b.device()}}, kHint);
  if (a.shape() != b.shape() && a.elements() != 1 && b.elements() != 1)
    throw berth::InvalidArgument(std::string(kernel.name) + ": the shapes differ");
  Tensor out(a.elements() == 1 ? b.shape() : a.shape(), a.device());
  run(kernel, {a, b}, out, {a.elements() != 1, b.elements() != 1});
  return out;
}

inline Tensor operator+(const Tensor& a, const Tensor& b) {
  return elementwise({"add", element::add}, a, b);
}
inline Tensor operator-(const Tensor& a, const Tensor& b) {
  return elementwise({"subtract", element::subtract}, a, b);
}
inline Tensor operator*(const Tensor& a, const Tensor& b) {
  return elementwise({"multiply", element::multiply}, a, b);
}

/// The product of two matrices; of the transposed left one, if asked for.
inline Tensor matmul(const Tensor& a, const Tensor& b, bool transpose_left = false) {
  berth::require_same_device("matmul", {{"left", a.device()}, {"right", b.device()}}, kHint);
  if (a.shape().size() != 2 || b.shape().size() != 2)
    throw berth::InvalidArgument("matmul: matrices are expected");
  const long rows = a.shape()[transpose_left ? 1 : 0];
  const long inner = a.shape()[transpose_left ? 0 : 1];
  if (inner != b.shape()[0]) throw berth::InvalidArgument("matmul: the inner sizes differ");
  Tensor out({rows, b.shape()[1]}, a.device());
  run({"matmul", element::matmul}, {a, b}, out,
      {inner, b.shape()[1], transpose_left ? 1 : inner, transpose_left ? rows : 1});
  return out;
}

/// The mean of the squares, a single number.
inline Tensor mean_square(const Tensor& a) {
  Tensor out({1}, a.device());
  run({"mean_square", element::mean_square}, {a}, out, {a.elements()});
  return out;
}

/// target += factor * change, in place.
inline void add_scaled(Tensor& target, const Tensor& change, float factor) {
  berth::require_same_device("add_scaled",
                             {{"target", target.device()}, {"change", change.device()}}, kHint);
  if (target.shape() != change.shape())
    throw berth::InvalidArgument("add_scaled: the shapes differ");
  run({"add_scaled", element::add_scaled}, {change}, target, {}, factor);
}

}  // namespace mini
