// SPDX-License-Identifier: Apache-2.0
// Source: CUDA Driver API, "Execution Control", cuLaunchHostFunc.
#include "contract/contract_driver.hpp"

namespace host_function_contract_test {

using namespace berth;
using namespace berth::test;

namespace {

/// A byte that a host function looks at, and what it saw.
struct Seen {
  const unsigned char* byte;
  int value;
};

void CUDA_CB look(void* data) {
  auto& seen = *static_cast<Seen*>(data);
  seen.value = *seen.byte;
}

}  // namespace

// "The function will be called after currently enqueued work and will block work added after it":
// each launch once, with its own data.
TEST_CASE_FIXTURE(ContractFixture,
                  "host functions of a stream are called in order, once a launch") {
  struct Note {
    std::vector<int>* seen;
    int value;
  };
  std::vector<int> seen;
  Note notes[] = {{&seen, 1}, {&seen, 2}, {&seen, 3}};
  const CUhostFn append = [](void* data) {
    auto& note = *static_cast<Note*>(data);
    note.seen->push_back(note.value);
  };
  const CUstream stream = make_stream();
  for (const std::size_t i : {0, 1, 2, 1})
    driver.launch_host_func(stream, append, static_cast<void*>(&notes[i]));
  driver.stream_synchronize(stream);
  CHECK(seen == std::vector<int>{1, 2, 3, 2});
  driver.stream_destroy(stream);
}

// "The start of execution of the function has the same effect as synchronizing an event recorded in
// the same stream ... It thus synchronizes streams which have been 'joined' prior to the function."
TEST_CASE_FIXTURE(ContractFixture, "a host function sees what joined streams have done") {
  const CUstream first = make_stream();
  const CUstream second = make_stream();
  const CUevent event = make_event();
  unsigned char* pinned = make_pinned(1);
  Seen seen{pinned, -1};
  {
    Gate gate(driver, first);
    fill(address_of(pinned), 4, 1, first);
    driver.event_record(event, first);
    driver.stream_wait_event(second, event, 0U);
    driver.launch_host_func(second, &look, static_cast<void*>(&seen));
    gate.open();
    driver.stream_synchronize(second);
  }
  CHECK(seen.value == 4);
  driver.mem_free_host(static_cast<void*>(pinned));
  driver.event_destroy(event);
  for (const CUstream stream : {first, second}) driver.stream_destroy(stream);
}

// "... will block work added after it": what the function writes is there for that work.
TEST_CASE_FIXTURE(ContractFixture, "work behind a host function sees what the function wrote") {
  const CUstream stream = make_stream();
  const CUdeviceptr memory = make_memory(1);
  unsigned char* pinned = make_pinned(1, 1);
  {
    Gate gate(driver, stream);
    driver.launch_host_func(
        stream, [](void* byte) { *static_cast<unsigned char*>(byte) = 2; },
        static_cast<void*>(pinned));
    driver.memcpy_async(memory, address_of(pinned), std::size_t{1}, stream);
    CHECK(*pinned == 1);
    gate.open();
    driver.stream_synchronize(stream);
  }
  CHECK(read(memory, 1, stream) == bytes_of(1, 2));
  driver.mem_free(memory);
  driver.mem_free_host(static_cast<void*>(pinned));
  driver.stream_destroy(stream);
}

// "This function uses standard default stream semantics": on the legacy stream it comes behind the
// blocking streams.
TEST_CASE_FIXTURE(ContractFixture,
                  "a host function on the legacy stream waits for blocking streams") {
  const CUstream blocking = make_stream(CU_STREAM_DEFAULT);
  unsigned char* pinned = make_pinned(1);
  Seen seen{pinned, -1};
  fill(address_of(pinned), 7, 1, blocking);
  driver.launch_host_func(CU_STREAM_LEGACY, &look, static_cast<void*>(&seen));
  driver.stream_synchronize(CU_STREAM_LEGACY);
  CHECK(seen.value == 7);
  driver.mem_free_host(static_cast<void*>(pinned));
  driver.stream_destroy(blocking);
}

}  // namespace host_function_contract_test
