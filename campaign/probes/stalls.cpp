// SPDX-License-Identifier: Apache-2.0
// campaign_stalls: whether a running kernel is stopped while the host maps, unmaps, allocates or
// registers memory. The kernel itself records the longest time between two iterations of its loop:
// for a kernel that only computes, and for one that reads memory, whose address translations the
// driver may have invalidated.
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>

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

/// Physical memory that is mapped and unmapped again, granule by granule.
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

/// Zeros: more memory than a device's cache of address translations covers.
class Zeros {
 public:
  Zeros(const Machine& machine, std::size_t bytes_max)
      : driver_(machine.driver()), bytes_(std::min(machine.bytes_free() / 4, bytes_max)) {
    driver_.mem_alloc(&data_, bytes_);
    driver_.memset_d8_async(data_, static_cast<unsigned char>(0), bytes_, CUstream{nullptr});
    driver_.ctx_synchronize();
  }
  ~Zeros() { driver_.try_mem_free(data_); }
  Zeros(const Zeros&) = delete;
  Zeros& operator=(const Zeros&) = delete;

  [[nodiscard]] CUdeviceptr data() const { return data_; }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }

 private:
  const Driver& driver_;
  const std::size_t bytes_;
  CUdeviceptr data_ = 0;
};

class Stalls {
 public:
  explicit Stalls(const Machine& machine)
      : driver_(machine.driver()),
        kernels_(machine),
        zeros_(machine, kernels_.are_real() ? 4_GiB : kGranule) {
    driver_.stream_create_with_priority(&stream_, unsigned{CU_STREAM_NON_BLOCKING}, 0);
  }
  ~Stalls() {
    driver_.try_stream_synchronize(stream_);
    driver_.try_stream_destroy(stream_);
  }
  Stalls(const Stalls&) = delete;
  Stalls& operator=(const Stalls&) = delete;

  void add(const std::string& what, const std::function<void()>& action) const {
    attempt("stalls", what, [&] {
      action();  // the one-time work of a first call is not a stall
      add_with(what, "a kernel that computes", 0, action);
      add_with(what, "a kernel that reads memory", zeros_.bytes(), action);
    });
  }

 private:
  void add_with(const std::string& what, const char* kernel, std::size_t bytes,
                const std::function<void()>& action) const {
    std::size_t turns = 0;
    bool has_outlasted = false;
    const auto longest = kernels_.longest_stall(stream_, kKernel, zeros_.data(), bytes, [&] {
      const auto end = std::chrono::steady_clock::now() + kKernel / 2;
      do {
        action();
        ++turns;
      } while (std::chrono::steady_clock::now() < end);
      has_outlasted = driver_.try_stream_query(stream_) == CUDA_SUCCESS;
    });
    const Place place = {{"the host", what}, {"kernel", kernel}};
    if (!longest) return add_row_at("stalls", place, {{"skipped", "no kernel runs here"}});
    Json values = {{"ns_longest", *longest}, {"turns", turns}};
    if (has_outlasted) values["outcome"] = "the host waited for the kernel";
    add_row_at("stalls", place, values);
  }

  const Driver& driver_;
  const Kernels kernels_;
  const Zeros zeros_;
  CUstream stream_ = nullptr;
};

void measure(const Machine& machine) {
  const Driver& driver = machine.driver();
  const Stalls stalls(machine);
  stalls.add("does nothing", [] {});
  const Remaps remaps(machine);
  stalls.add("maps and unmaps 64 MiB, granule by granule", [&] {
    remaps.map_all();
    remaps.unmap_all();
  });
  stalls.add("allocates and frees 64 MiB", [&] {
    CUdeviceptr data = 0;
    driver.mem_alloc(&data, kBytes);
    driver.mem_free(data);
  });
  const std::unique_ptr<void, decltype(&std::free)> host(std::aligned_alloc(kGranule, kBytes),
                                                         &std::free);
  stalls.add("registers and unregisters 64 MiB", [&] {
    driver.mem_host_register(host.get(), kBytes, 0U);
    driver.mem_host_unregister(host.get());
  });
}

}  // namespace

int main() {
  return run_on_machine(measure);
}
