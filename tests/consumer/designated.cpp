// SPDX-License-Identifier: Apache-2.0
// An outside program that names some members of each struct of options, and leaves out the others,
// which no compiler may warn about. It allocates on the simulated driver.
#include <berth/berth.hpp>
#include <chrono>
#include <cstdio>
#include <cstring>

namespace {

constexpr std::size_t kBytes = std::size_t{1} << 20;

bool options_are_kept() {
  const berth::RuntimeOptions options{
      .device_allocator = {.limits = {.bytes_reserved_max = kBytes},
                           .release_unused_after = std::chrono::seconds(1)},
      .pinned_allocator = {.bytes_cached_max = kBytes},
      .host_allocator = {.bytes_reserved_max = kBytes},
      .stream_pool = {.streams_max = 4},
      .event_pool = {.events_max = 8},
      .copier = {.staging_slots = 2},
  };
  const berth::EventOptions event{.interprocess = true};
  const berth::MemoryPoolOptions pool{.name = "weights"};
  const berth::PinnedOptions pinned{.may_wait = false};
  const berth::StreamOptions stream{.priority = -1};
  const berth::TransferOptions transfer{.priority = 1};
  // The members without which there is no pool.
  const berth::HandlePoolOptions<int> handles{
      .name = "blas", .create = [] { return 1; }, .bind = [](int&, berth::StreamRef) {}};
  return options.copier.staging_slots == 2 && event.interprocess && pool.name == "weights" &&
         !pinned.may_wait && stream.priority == -1 && transfer.priority == 1 &&
         handles.create() == 1;
}

bool allocates() {
  berth::Runtime runtime({.driver = "sim"});
  const berth::Device device = berth::Device::cuda(0);
  const berth::StreamLease stream = runtime.streams(device).acquire();
  const berth::Allocation memory = runtime.memory(device).allocate(kBytes, stream);
  const char sent[] = "designated";
  char received[sizeof sent] = {};
  runtime.copier().copy_async(memory.data(), sent, sizeof sent, stream);
  runtime.copier().copy(received, memory.data(), sizeof sent, stream);
  return memory.bytes() == kBytes && std::strcmp(sent, received) == 0;
}

}  // namespace

int main() {
  if (!options_are_kept()) return 1;
  std::puts(allocates() ? "allocated" : "other bytes came back");
}
