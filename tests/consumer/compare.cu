// SPDX-License-Identifier: Apache-2.0
// A program of nvcc that embeds berth: every comparison and hash of the public types has to link.
#include <berth/berth.hpp>
#include <cstdio>
#include <functional>

__global__ void fill(float* data, float value) {
  data[threadIdx.x] = value;
}

namespace {

template <class T>
bool agrees(const T& a, const T& same, const T& other) {
  return a == same && a != other;
}

bool agree_values() {
  const berth::Device one = berth::Device::cuda(1);
  const auto half = berth::MemoryAmount::part_of_device(0.5);
  return agrees(one, berth::Device::parse("cuda:1"), berth::Device::cpu()) &&
         berth::Device::cpu() < one && one > berth::Device::cuda() &&
         agrees(one.type(), berth::DeviceType::cuda(), berth::DeviceType::cpu()) &&
         berth::DeviceType::cpu() < one.type() &&
         agrees(half, berth::MemoryAmount::part_of_device(0.5), berth::MemoryAmount(512)) &&
         std::hash<berth::Device>()(one) == std::hash<berth::Device>()(berth::Device::cuda(1));
}

}  // namespace

int main(int argc, char**) {
  berth::Runtime runtime(berth::RuntimeOptions{.driver = "sim"});
  const auto device = berth::Device::cuda(0);
  const berth::StreamLease stream = runtime.streams(device).acquire();
  const berth::Allocation memory = runtime.memory(device).allocate(1024, stream);
  const berth::EventLease first = runtime.record(stream), second = runtime.record(stream);
  if (argc > 1000) fill<<<1, 256>>>(static_cast<float*>(memory.data()), 1);  // never: it has no GPU

  const bool agree = agree_values() &&
                     agrees(stream.ref(), stream.ref(), runtime.default_stream(device)) &&
                     agrees(first.ref(), first.ref(), second.ref());
  std::puts(agree ? "all comparisons agree" : "a comparison is wrong");
}
