// SPDX-License-Identifier: Apache-2.0
#include "endurance/machine.hpp"

#include <algorithm>
#include <array>

#include "berth/report.hpp"

#include "device/device_context.hpp"
#include "endurance/failure.hpp"

namespace berth::endurance {
namespace {

constexpr std::size_t kTagBytes = 64;

void refuse_reports(const Report& report) {
  fail("reported: " + report.message);
}

}  // namespace

Machine::Machine(const Mode& mode, std::uint64_t seed)
    : watch(mode.device_bytes()), simulator(mode.config(seed)) {
  driver.emplace(DriverWatch::source(), &refuse_reports);
  nvml.emplace(DriverWatch::source());
  registry.emplace(*driver, *nvml);
  context = &registry->context(Device::cuda(0));
  events.emplace(*context);
  memory.emplace(*context, *events, mode.options());
}

Machine::~Machine() {
  memory->set_limits({});
  simulator.run_all();  // trim does not wait for deferred frees
  memory->trim(0);
  memory->validate();
  require(memory->counters().bytes_reserved.current == 0, "trim does not give back everything");
  require(simulator.device_bytes_used(0) == 0, "the device has bytes in use after trim");
  require(watch.nothing_held(), "memory is mapped after trim");
  memory.reset();
  require(events->leases_live() == 0, "events are out when the allocator is gone");
  events.reset();
  registry.reset();
  nvml.reset();
  driver.reset();
  for (const std::string& left : simulator.live_list()) fail("left alive: " + left);
  for (const std::string& finding : simulator.take_findings()) fail(finding);
}

void Machine::replace(StreamPlace& place) {
  place.stream.reset();
  place.stream.emplace(*context, StreamOptions{});
  ++place.generation;
}

EventLease Machine::record(StreamRef stream) {
  EventLease event = events->acquire();
  event->record(stream);
  return event;
}

// Stands for a kernel: it costs no time, and takes part in races.
void Machine::use(StreamRef stream, std::uintptr_t address, std::size_t bytes, bool writes) {
  require(simulator.launch(stream.native(), 0, {{address, bytes, writes}}),
          "work was refused by a stream");
}

void Machine::write_tag(StreamRef stream, std::uintptr_t address, std::size_t bytes,
                        unsigned char tag) {
  const ContextScope scope(*context);
  const std::size_t tag_bytes = std::min(bytes, kTagBytes);
  for (const std::uintptr_t at : {address, address + bytes - tag_bytes})
    driver->memset_d8_async(CUdeviceptr{at}, tag, tag_bytes, stream.native());
}

bool Machine::has_tag(std::uintptr_t address, std::size_t bytes, unsigned char tag) const {
  const std::size_t tag_bytes = std::min(bytes, kTagBytes);
  const std::array places = {address, address + bytes - tag_bytes};
  return std::ranges::all_of(places, [&](std::uintptr_t at) {
    const std::vector<unsigned char> found = simulator.peek(CUdeviceptr{at}, tag_bytes);
    return found.size() == tag_bytes &&
           std::ranges::all_of(found, [tag](unsigned char byte) { return byte == tag; });
  });
}

}  // namespace berth::endurance
