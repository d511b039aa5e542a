// SPDX-License-Identifier: Apache-2.0
// Handles of cuDNN, and plans of cuFFT, which are handles for transforms of one size.
#pragma once

#include <cmath>

#include "../core/ops.hpp"
#include "native_library.hpp"

namespace mini {

class DnnLibrary {
 public:
  [[nodiscard]] berth::HandlePool<NativeHandle>& handles() { return handles_; }

  /// factor * a, on the stream that `handle` is bound to.
  Tensor scale(NativeHandle& handle, const Tensor& a, float factor) {
    const berth::StreamGuard guard(*handle.stream);
    if (!native_.is_open()) return a * full({1}, factor);
    Tensor out(a.shape(), a.device());
    const float zero = 0;
    void* shape = nullptr;  // floats, 1 x 1 x 1 x elements
    native_.call<int(void**)>("cudnnCreateTensorDescriptor", &shape);
    native_.call<int(void*, int, int, int, int, int, int)>("cudnnSetTensor4dDescriptor", shape, 0,
                                                           0, 1, 1, 1, int(a.elements()));
    native_.call<int(void*, const float*, void*, const float*, const float*, void*, float*)>(
        "cudnnTransformTensor", handle.native, &factor, shape, a.data(), &zero, shape, out.data());
    native_.call<int(void*)>("cudnnDestroyTensorDescriptor", shape);
    return out;
  }

 private:
  berth::HandlePoolOptions<NativeHandle> options() {
    auto options = native_.handles("cudnnCreate", "cudnnDestroy", "cudnnSetStream");
    options.name = "cuDNN";
    return options;
  }

  const NativeLibrary native_{"libcudnn.so", "libcudnn.so.9"};
  berth::HandlePool<NativeHandle> handles_{library().runtime, options()};
};

class FftLibrary {
 public:
  struct Plan {
    int number = 0;
    std::optional<berth::StreamRef> stream = std::nullopt;
  };

  explicit FftLibrary(int points) : points_(points), handles_(library().runtime, options()) {}

  [[nodiscard]] berth::HandlePool<Plan>& handles() { return handles_; }

  /// The transform of complex numbers, a column of real and imaginary parts in turns.
  Tensor transform(Plan& plan, const Tensor& numbers) {
    const berth::StreamGuard guard(*plan.stream);
    if (!native_.is_open()) return matmul(matrix().to(numbers.device()), numbers);
    Tensor out(numbers.shape(), numbers.device());
    constexpr int kForward = -1;
    native_.call<int(int, float*, float*, int)>("cufftExecC2C", plan.number, numbers.data(),
                                                out.data(), kForward);
    return out;
  }

 private:
  /// For the stand-in.
  [[nodiscard]] Tensor matrix() const {
    const long size = 2L * points_;
    std::vector<float> entries(std::size_t(size * size));
    for (long row = 0; row < size; ++row)
      for (long column = 0; column < size; ++column) {
        const double turns =
            double(row / 2 * (column / 2)) / points_ + double(row % 2 - column % 2) / 4;
        entries[std::size_t(row * size + column)] = float(std::cos(2 * std::acos(-1.0) * turns));
      }
    return tensor(entries, {size, size});
  }

  berth::HandlePoolOptions<Plan> options() {
    berth::HandlePoolOptions<Plan> options;
    options.name = "cuFFT";
    options.create = [this] {
      Plan plan;
      constexpr int kComplexToComplex = 0x29;
      if (native_.is_open())
        native_.call<int(int*, int, int, int)>("cufftPlan1d", &plan.number, points_,
                                               kComplexToComplex, 1);
      return plan;
    };
    options.destroy = [this](Plan& plan) {
      if (native_.is_open()) native_.call<int(int)>("cufftDestroy", plan.number);
    };
    options.bind = [this](Plan& plan, berth::StreamRef stream) {
      plan.stream = stream;
      if (native_.is_open())
        native_.call<int(int, CUstream_st*)>("cufftSetStream", plan.number, stream.native());
    };
    return options;
  }

  const int points_;
  const NativeLibrary native_{"libcufft.so", "libcufft.so.12", "libcufft.so.11"};
  berth::HandlePool<Plan> handles_;
};

}  // namespace mini
