// SPDX-License-Identifier: Apache-2.0
#include "probes/machine.hpp"

#include <cstdio>
#include <exception>

#include "base/env.hpp"
#include "probes/rows.hpp"
#include "runtime/driver_choice.hpp"

namespace berth::campaign {

Machine::Machine() : driver_(open_driver(env("BERTH_DRIVER").value_or("cuda"), {}).driver) {
  int count = 0;
  if (!driver_->usable()) throw Unusable{driver_->problem()};
  if (driver_->try_device_get_count(&count) != CUDA_SUCCESS || count == 0)
    throw Unusable{"the driver has no device"};
  driver_->device_get(&device_, 0);
  driver_->primary_ctx_retain(&context_, device_);
  enter_thread();
}

Machine::~Machine() {
  driver_->try_ctx_set_current(nullptr);
  driver_->try_primary_ctx_release(device_);
}

const char* Machine::name_of(CUresult result) const {
  const char* name = nullptr;
  driver().try_get_error_name(result, &name);
  return name;
}

int Machine::attribute(CUdevice_attribute which) const {
  int value = 0;
  driver().try_device_get_attribute(&value, which, device_);
  return value;
}

std::size_t Machine::bytes_free() const {
  std::size_t bytes = 0;
  std::size_t bytes_total = 0;
  driver().mem_get_info(&bytes, &bytes_total);
  return bytes;
}

CUmemAllocationProp Machine::physical_memory() const {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = access().location;
  return properties;
}

CUmemAccessDesc Machine::access() const {
  return {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device_},
          .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
}

int run_on_machine(const std::function<void(const Machine&)>& measure) {
  constexpr int kSkipped = 77;
  try {
    const Machine machine;
    measure(machine);
    return has_any_failed() ? 1 : 0;
  } catch (const Machine::Unusable& unusable) {
    std::fprintf(stderr, "skipped: %s\n", unusable.problem.c_str());
    return kSkipped;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}

}  // namespace berth::campaign
