// SPDX-License-Identifier: Apache-2.0
#include "blas.hpp"
#include "dnn_and_fft.hpp"
#include "program.hpp"

using mini::Tensor;

/// The first number of the transform of 3, 3, 3, 3: a handle of each library, on the same stream.
float transformed(berth::StreamRef stream) {
  mini::DnnLibrary dnn;
  mini::FftLibrary fft(4);
  const auto handle = dnn.handles().acquire(stream);
  const auto plan = fft.handles().acquire(stream);
  const berth::StreamGuard guard(stream);
  const Tensor ones = mini::tensor({1, 0, 1, 0, 1, 0, 1, 0}, {8, 1}, "cuda");
  return fft.transform(plan, dnn.scale(handle, ones, 3)).values()[0];
}

void chapter(std::ostream& out, bool) {
  berth::StreamPool& streams = mini::library().runtime.streams(berth::Device::cuda(0));
  const berth::StreamLease left = streams.acquire();
  const berth::StreamLease right = streams.acquire();
  mini::BlasLibrary blas(2);
  const auto multiply = [&](mini::NativeHandle& handle) {
    const berth::StreamGuard guard(*handle.stream);  // the operands are made on this stream, too
    const Tensor a = mini::full({2, 2}, 2, "cuda");
    return blas.multiply(handle, a, a).values()[3];
  };

  float product = 0;
  for (int round = 0; round < 10; ++round) {
    const auto one = blas.handles().acquire(left);
    const auto other = blas.handles().acquire(right);
    product = multiply(one) + multiply(other);
  }  // the handles are idle again, while kernels may still run
  const berth::HandleCounters counters = blas.handles().counters();
  out << product << " by " << counters.created << " handles, bound " << counters.binds << " times\n"
      << transformed(left) << " by handles of two more libraries\n";

  const auto first = blas.handles().acquire(left);
  const auto second = blas.handles().acquire(right);
  mini::show_error(out, [&] { static_cast<void>(blas.handles().acquire(left)); });
}

int main(int argc, char** argv) {
  return mini::program(argc, argv, chapter, "devices=1");
}
