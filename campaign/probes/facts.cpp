// SPDX-License-Identifier: Apache-2.0
// campaign_facts: the properties of the device and its driver, the features that they report, and
// the features that fail when they are used. --memory: only the free memory of the device, and its
// architecture. --kernels: only whether the campaign's kernels work here.
#include <array>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "berth/bytes.hpp"

#include "probes/kernels.hpp"
#include "probes/link.hpp"
#include "probes/machine.hpp"
#include "probes/rows.hpp"

namespace {

using namespace berth;
using namespace berth::campaign;
using namespace std::chrono_literals;

void add_fact(std::string_view row, const Json& value) {
  add_row("facts", row, {{"value", value}});
}

struct Attribute {
  const char* says;
  CUdevice_attribute which;
};

constexpr std::array kAttributes = {
    Attribute{"compute capability, major", CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR},
    Attribute{"compute capability, minor", CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR},
    Attribute{"multiprocessors", CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT},
    Attribute{"L2 cache, bytes", CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE},
    Attribute{"copy engines", CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT},
    Attribute{"NUMA node of the host", CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID},
    Attribute{"NUMA configuration", CU_DEVICE_ATTRIBUTE_NUMA_CONFIG},
    Attribute{"integrated", CU_DEVICE_ATTRIBUTE_INTEGRATED},
    Attribute{"unified addressing", CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING},
    Attribute{"virtual memory management", CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED},
    Attribute{"handles as file descriptors",
              CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED},
    Attribute{"fabric handles", CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED},
    Attribute{"RDMA of mapped memory", CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED},
    Attribute{"compressible memory", CU_DEVICE_ATTRIBUTE_GENERIC_COMPRESSION_SUPPORTED},
    Attribute{"memory pools", CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED},
    Attribute{"waits for a value may ask for NOR",
              CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR},
    Attribute{"64-bit waits for a value", CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS},
    Attribute{"pageable memory access", CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS},
    Attribute{"pageable memory by the host's page tables",
              CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES},
    Attribute{"concurrent managed access", CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS},
    Attribute{"registered memory at its host address",
              CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM},
    Attribute{"read-only registration", CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED},
    Attribute{"memory interprocess events", CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED},
};

void say_device(const Machine& machine) {
  const Driver& driver = machine.driver();
  std::array<char, 256> name{};
  std::array<char, 64> bus{};
  std::size_t bytes = 0;
  driver.device_get_name(name.data(), static_cast<int>(name.size()), machine.device());
  driver.device_get_pci_bus_id(bus.data(), static_cast<int>(bus.size()), machine.device());
  driver.device_total_mem(&bytes, machine.device());
  add_fact("device", name.data());
  add_fact("driver, as cuDriverGetVersion says", driver.version());
  add_fact("PCI address", bus.data());
  add_fact("memory, bytes", bytes);
  for (const auto& [fact, value] : link_facts(bus.data())) add_fact(fact, value);
  for (const Attribute& each : kAttributes) add_fact(each.says, machine.attribute(each.which));
}

class Refusals {
 public:
  explicit Refusals(const Machine& machine) : machine_(machine) {}

  void add(std::string_view tried, CUresult result) const {
    const char* const name = machine_.name_of(result);
    add_row("refusals", tried, {{"value", name == nullptr ? std::to_string(result) : name}});
  }

 private:
  const Machine& machine_;
};

/// Virtual memory management as a whole: reserve, map, give access, write.
void try_mapping(const Machine& machine, const Refusals& refusals,
                 const CUmemAllocationProp& properties) {
  const Driver& driver = machine.driver();
  const CUmemAccessDesc access = machine.access();
  const CUdeviceptr anywhere = 0;
  CUdeviceptr address = 0;
  CUmemGenericAllocationHandle handle = 0;
  CUresult result = driver.try_mem_address_reserve(&address, 2_MiB, std::size_t{0}, anywhere, 0ULL);
  const bool is_reserved = result == CUDA_SUCCESS;
  if (is_reserved) result = driver.try_mem_create(&handle, 2_MiB, &properties, 0ULL);
  const bool is_created = is_reserved && result == CUDA_SUCCESS;
  if (is_created) result = driver.try_mem_map(address, 2_MiB, std::size_t{0}, handle, 0ULL);
  const bool is_mapped = is_created && result == CUDA_SUCCESS;
  if (is_mapped) result = driver.try_mem_set_access(address, 2_MiB, &access, std::size_t{1});
  if (is_mapped && result == CUDA_SUCCESS) {
    result = driver.try_memset_d8_async(address, static_cast<unsigned char>(1), 2_MiB,
                                        CUstream{nullptr});
    driver.ctx_synchronize();
  }
  refusals.add("physical memory mapped and written", result);
  if (is_mapped) driver.try_mem_unmap(address, 2_MiB);
  if (is_created) driver.try_mem_release(handle);
  if (is_reserved) driver.try_mem_address_free(address, 2_MiB);
}

void try_physical_memory(const Machine& machine, const Refusals& refusals) {
  const Driver& driver = machine.driver();
  const CUmemAllocationProp plain = machine.physical_memory();
  for (const auto& [row, which] :
       {std::pair{"granularity, least", CU_MEM_ALLOC_GRANULARITY_MINIMUM},
        {"granularity, recommended", CU_MEM_ALLOC_GRANULARITY_RECOMMENDED}}) {
    std::size_t bytes = 0;
    const CUresult result = driver.try_mem_get_allocation_granularity(&bytes, &plain, which);
    if (result == CUDA_SUCCESS) {
      add_fact(std::string(row) + ", bytes", bytes);
    } else {
      refusals.add(row, result);
    }
  }
  const auto create = [&](std::string_view tried, const CUmemAllocationProp& properties) {
    CUmemGenericAllocationHandle handle = 0;
    const CUresult created = driver.try_mem_create(&handle, 2_MiB, &properties, 0ULL);
    refusals.add(tried, created);
    if (created == CUDA_SUCCESS) driver.try_mem_release(handle);
  };
  try_mapping(machine, refusals, plain);
  create("memory of its own", plain);
  CUmemAllocationProp changed = plain;
  changed.allocFlags.gpuDirectRDMACapable = 1;
  create("memory for RDMA", changed);
  changed = plain;
  changed.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  create("memory with a file descriptor", changed);
  changed.requestedHandleTypes = CU_MEM_HANDLE_TYPE_FABRIC;
  create("memory with a fabric handle", changed);
}

void try_streams(const Machine& machine, const Refusals& refusals) {
  const Driver& driver = machine.driver();
  CUstream stream = nullptr;
  driver.stream_create_with_priority(&stream, unsigned{CU_STREAM_NON_BLOCKING}, 0);
  CUdeviceptr memory = 0;
  driver.mem_alloc(&memory, 4_KiB);
  driver.memset_d8_async(memory, static_cast<unsigned char>(0), 4_KiB, stream);
  refusals.add("wait for a value in device memory",
               driver.try_stream_wait_value32(stream, memory, cuuint32_t{0},
                                              unsigned{CU_STREAM_WAIT_VALUE_GEQ}));
  void* host = nullptr;
  driver.mem_host_alloc(&host, 4_KiB, unsigned{CU_MEMHOSTALLOC_DEVICEMAP});
  std::memset(host, 0, 4_KiB);
  refusals.add("wait for a value in pinned memory",
               driver.try_stream_wait_value32(stream, reinterpret_cast<CUdeviceptr>(host),
                                              cuuint32_t{0}, unsigned{CU_STREAM_WAIT_VALUE_GEQ}));
  CUdeviceptr source = reinterpret_cast<CUdeviceptr>(host);
  std::size_t bytes = 4_KiB;
  CUmemcpyAttributes attributes{};
  attributes.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
  std::size_t index = 0;
  refusals.add("copies in a batch",
               driver.try_memcpy_batch_async(&memory, &source, &bytes, std::size_t{1}, &attributes,
                                             &index, std::size_t{1}, stream));
  driver.stream_synchronize(stream);
  driver.mem_free_host(host);
  driver.mem_free(memory);
  driver.stream_destroy(stream);
}

void measure(const Machine& machine) {
  say_device(machine);
  const Refusals refusals(machine);
  attempt("refusals", "physical memory", [&] { try_physical_memory(machine, refusals); });
  attempt("refusals", "streams", [&] { try_streams(machine, refusals); });
}

void say_memory(const Machine& machine) {
  std::size_t bytes_free = 0;
  std::size_t bytes_total = 0;
  machine.driver().mem_get_info(&bytes_free, &bytes_total);
  add_row("memory", "free",
          {{"bytes_free", bytes_free},
           {"bytes_total", bytes_total},
           {"compute_major", machine.attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)},
           {"compute_minor", machine.attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)}});
}

/// Compares the results of kernels with those of the host.
void try_kernels(const Machine& machine) {
  constexpr std::size_t kBytes = 1_MiB + 8;
  constexpr std::uint64_t kSeed = 0x1234567890abcdef;
  const Driver& driver = machine.driver();
  const Kernels kernels(machine);
  if (!kernels.are_real()) throw Machine::Unusable{"no kernel runs here"};
  CUstream stream = nullptr;
  CUdeviceptr data = 0;
  driver.stream_create_with_priority(&stream, unsigned{CU_STREAM_NON_BLOCKING}, 0);
  driver.mem_alloc(&data, kBytes);
  kernels.fill(stream, data, kBytes, kSeed);
  std::vector<std::uint64_t> words(kBytes / 8);
  driver.memcpy_async(reinterpret_cast<CUdeviceptr>(words.data()), data, kBytes, stream);
  driver.stream_synchronize(stream);
  for (std::size_t index = 0; index < words.size(); ++index) {
    if (words[index] != Kernels::word(index, kSeed))
      throw std::runtime_error(fmt::format("a kernel writes {:x} as word {}", words[index], index));
  }
  if (kernels.mismatches(stream, data, kBytes, kSeed) != 0)
    throw std::runtime_error("a kernel finds a mistake where there is none");
  driver.memset_d8_async(data + kBytes - 24, static_cast<unsigned char>(0), 24, stream);
  if (const std::uint64_t found = kernels.mismatches(stream, data, kBytes, kSeed); found != 3)
    throw std::runtime_error(fmt::format("a kernel finds {} mistakes of 3", found));
  const auto begin = std::chrono::steady_clock::now();
  kernels.spin(stream, 5ms);
  driver.stream_synchronize(stream);
  if (std::chrono::steady_clock::now() - begin < 4ms)
    throw std::runtime_error("a kernel of 5 ms ends before");
  const auto longest = kernels.longest_stall(stream, 5ms, data, 0, [] {});
  if (longest.value_or(0) == 0) throw std::runtime_error("the timer of the device stands still");
  driver.mem_free(data);
  driver.stream_destroy(stream);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view option = argc == 2 ? argv[1] : "";
  if (option == "--memory") return run_on_machine(say_memory);
  return run_on_machine(option == "--kernels" ? try_kernels : measure);
}
