// SPDX-License-Identifier: Apache-2.0
// campaign_stalls: whether a kernel that runs stands still while the host maps, unmaps, allocates or registers
// memory. The kernel itself notes the longest time between two turns of its loop.
#include <chrono>
#include <cstdlib>
#include <functional>
#include <string_view>

#include "berth/bytes.hpp"

#include "probes/kernels.hpp"
#include "probes/machine.hpp"
#include "probes/rows.hpp"

namespace {

using namespace berth;
using namespace berth::campaign;
using namespace std::chrono_literals;

constexpr auto kKernel = 200ms;
constexpr std::size_t kBytes = 64_MiB;
constexpr std::size_t kGranule = 2_MiB;

/// Physical memory that is mapped and unmapped again, granule by granule, for as long as the kernel runs.
class Remaps {
 public:
  explicit Remaps(const Machine& machine) : driver_(machine.driver()), access_(machine.access()) {
    const CUmemAllocationProp properties = machine.physical_memory();
    const CUdeviceptr anywhere = 0;
    driver_.mem_address_reserve(&address_, kBytes, kGranule, anywhere, 0ULL);
    driver_.mem_create(&handle_, kGranule, &properties, 0ULL);
  }
  ~Remaps() {
    driver_.try_mem_release(handle_);
    driver_.try_mem_address_free(address_, kBytes);
  }
  Remaps(const Remaps&) = delete;
  Remaps& operator=(const Remaps&) = delete;

  void map_all() const {
    for (std::size_t at = 0; at < kBytes; at += kGranule)
      driver_.mem_map(address_ + at, kGranule, std::size_t{0}, handle_, 0ULL);
    driver_.mem_set_access(address_, kBytes, &access_, std::size_t{1});
  }
  void unmap_all() const {
    for (std::size_t at = 0; at < kBytes; at += kGranule)
      driver_.mem_unmap(address_ + at, kGranule);
  }

 private:
  const Driver& driver_;
  const CUmemAccessDesc access_;
  CUdeviceptr address_ = 0;
  CUmemGenericAllocationHandle handle_ = 0;
};

void measure(const Machine& machine) {
  const Driver& driver = machine.driver();
  const Kernels kernels(machine);
  CUstream stream = nullptr;
  driver.stream_create_with_priority(&stream, unsigned{CU_STREAM_NON_BLOCKING}, 0);
  const auto add = [&](std::string_view row, const std::function<void()>& action) {
    std::size_t turns = 0;
    const auto longest = kernels.longest_stall(stream, kKernel, [&] {
      const auto end = std::chrono::steady_clock::now() + kKernel / 2;
      while (std::chrono::steady_clock::now() < end) {
        action();
        ++turns;
      }
    });
    if (longest) {
      add_row("stalls", row, {{"ns_longest", *longest}, {"turns", turns}});
    } else {
      add_row("stalls", row, {{"skipped", "no kernel runs here"}});
    }
  };
  add("the host does nothing", [] {});
  const Remaps remaps(machine);
  add("64 MiB mapped and unmapped, granule by granule", [&] {
    remaps.map_all();
    remaps.unmap_all();
  });
  add("64 MiB allocated and freed", [&] {
    CUdeviceptr data = 0;
    driver.mem_alloc(&data, kBytes);
    driver.mem_free(data);
  });
  void* const host = std::aligned_alloc(kGranule, kBytes);
  add("64 MiB registered and unregistered", [&] {
    driver.mem_host_register(host, kBytes, 0U);
    driver.mem_host_unregister(host);
  });
  std::free(host);
  driver.stream_synchronize(stream);
  driver.stream_destroy(stream);
}

}  // namespace

int main() {
  return run_on_machine(measure);
}
