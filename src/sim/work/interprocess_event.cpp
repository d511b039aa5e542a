// SPDX-License-Identifier: Apache-2.0
#include "sim/work/interprocess_event.hpp"

#include <cstring>
#include <unistd.h>
#include <utility>

#include "berth/bytes.hpp"

#include "sim/state.hpp"

namespace berth::sim {
namespace {

constexpr char kEventMagic[8] = {'b', 'e', 'r', 't', 'h', 'i', 'p', 'e'};

constexpr std::size_t kMemoryBytes = 4_KiB;  // memory of other handles has other sizes

/// The content of a handle.
struct NamedEvent {
  char magic[sizeof(kEventMagic)];
  NamedFile file;
};
static_assert(sizeof(NamedEvent) <= sizeof(CUipcEventHandle));

/// At the start of the memory.
struct Counters {
  std::uint64_t recorded;
  std::uint64_t done;
};

Counters& counters_in(const SharedMemory& memory) {
  return *reinterpret_cast<Counters*>(memory.data());
}

}  // namespace

std::shared_ptr<InterprocessEvent> InterprocessEvent::create(const Uuid& uuid) {
  std::shared_ptr<SharedMemory> memory = SharedMemory::create(uuid, kMemoryBytes);
  if (memory == nullptr) return nullptr;
  return std::shared_ptr<InterprocessEvent>(new InterprocessEvent(std::move(memory)));
}

std::shared_ptr<InterprocessEvent> InterprocessEvent::open(const CUipcEventHandle& handle,
                                                           CUresult& error) {
  NamedEvent named{};
  std::memcpy(&named, handle.reserved, sizeof(named));
  error = CUDA_ERROR_INVALID_HANDLE;
  if (std::memcmp(named.magic, kEventMagic, sizeof(kEventMagic)) != 0) return nullptr;
  if (named.file.process == getpid()) {
    error = CUDA_ERROR_INVALID_CONTEXT;
    return nullptr;
  }
  std::shared_ptr<SharedMemory> memory = named.file.open();
  const bool is_it = memory != nullptr && memory->bytes() == kMemoryBytes;
  if (!is_it || !memory->hold()) return nullptr;
  error = CUDA_SUCCESS;
  return std::shared_ptr<InterprocessEvent>(new InterprocessEvent(std::move(memory)));
}

CUipcEventHandle InterprocessEvent::handle() const {
  NamedEvent named{{}, NamedFile::of(*memory_)};
  std::memcpy(named.magic, kEventMagic, sizeof(kEventMagic));
  CUipcEventHandle handle{};
  std::memcpy(handle.reserved, &named, sizeof(named));
  return handle;
}

std::uint64_t InterprocessEvent::begin_record() {
  return __atomic_add_fetch(&counters_in(*memory_).recorded, 1, __ATOMIC_ACQ_REL);
}

void InterprocessEvent::end_record(std::uint64_t number) {
  std::uint64_t& done = counters_in(*memory_).done;
  std::uint64_t before = __atomic_load_n(&done, __ATOMIC_ACQUIRE);
  while (before < number && !__atomic_compare_exchange_n(&done, &before, number, false,
                                                         __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
  }
}

std::uint64_t InterprocessEvent::recorded() const {
  return __atomic_load_n(&counters_in(*memory_).recorded, __ATOMIC_ACQUIRE);
}

std::uint64_t InterprocessEvent::done() const {
  return __atomic_load_n(&counters_in(*memory_).done, __ATOMIC_ACQUIRE);
}

RecordWork begin_record(Event& event) {
  if (event.shared == nullptr) return {event.handle};
  event.own_record = event.shared->begin_record();
  return {event.handle, event.shared, event.own_record};
}

void note_record(State& state, Event& event, const Clock& clock) {
  event.clock = clock;
  if (event.shared != nullptr) state.shared_order.join(clock);
}

WaitValueWork wait_for_foreign(const Event& event) {
  return {.address = 0,
          .value = event.shared->recorded(),
          .bytes = sizeof(std::uint64_t),
          .condition = CU_STREAM_WAIT_VALUE_GEQ,
          .event = event.shared};
}

}  // namespace berth::sim
