// SPDX-License-Identifier: Apache-2.0
// Memory to and from other libraries by DLPack.
#include "berth/dlpack.hpp"

#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "memory/memory_fixture.hpp"

namespace berth::test {
namespace {

using dlpack::DataType;
using dlpack::ImportedTensor;
using dlpack::ManagedTensor;

constexpr DataType kFloat32 = {dlpack::kFloat, 32};
using Shape = std::vector<std::int64_t>;

// As the specification lays the structs out on machines of 64 bits.
static_assert(sizeof(dlpack::Tensor) == 48);
static_assert(sizeof(ManagedTensor) == 80);
static_assert(offsetof(ManagedTensor, deleter) == 16);
static_assert(offsetof(ManagedTensor, flags) == 24);
static_assert(offsetof(ManagedTensor, tensor) == 32);
static_assert(offsetof(dlpack::Tensor, dtype) == 20);
static_assert(offsetof(dlpack::Tensor, byte_offset) == 40);

struct DlpackTest : MemoryTest {
  DlpackTest() : MemoryTest(small_device(64_MiB, sim::Progress::manual)) {}
  [[nodiscard]] std::uint64_t live() const { return counters().blocks_allocated.current; }
};

TEST_CASE_FIXTURE(DlpackTest, "a block goes to another library, whose deleter frees it") {
  const Stream own = stream();
  Allocation block = memory.allocate(100, own);
  void* const data = block.data();
  ManagedTensor* const given = dlpack::export_tensor(std::move(block), Shape{2, 3, 4}, kFloat32);
  CHECK_FALSE(block);
  CHECK(given->version.major == 1);
  CHECK(given->tensor.data == data);
  CHECK(given->tensor.device.device_type == dlpack::kCuda);
  CHECK(given->tensor.device.device_id == 0);
  CHECK(given->tensor.ndim == 3);
  CHECK(Shape(given->tensor.strides, given->tensor.strides + 3) == Shape{12, 4, 1});
  CHECK(live() == 1);
  std::thread([given] { given->deleter(given); }).join();
  CHECK(live() == 0);
}

TEST_CASE_FIXTURE(DlpackTest, "an imported tensor is returned to its exporter once") {
  const Stream own = stream();
  {
    ImportedTensor tensor(dlpack::export_tensor(memory.allocate(24, own), Shape{2, 3}, kFloat32));
    ImportedTensor moved = std::move(tensor);
    CHECK(moved.device() == Device::cuda(0));
    CHECK(memory.owns(moved.data()));
    CHECK(Shape(moved.shape().begin(), moved.shape().end()) == Shape{2, 3});
    CHECK(moved.is_contiguous());
    CHECK_FALSE(moved.is_read_only());
    CHECK(live() == 1);
  }
  CHECK(live() == 0);
}

TEST_CASE("an imported tensor reports the data, layout and device of its exporter") {
  std::int64_t shape[] = {3, 4};
  std::int64_t strides[] = {1, 3};
  float numbers[13] = {};
  ManagedTensor foreign = {.version = {1, 7},
                           .manager = nullptr,
                           .deleter = nullptr,
                           .flags = dlpack::kReadOnly,
                           .tensor = {.data = numbers,
                                      .device = {dlpack::kCudaHost, 0},
                                      .ndim = 2,
                                      .dtype = kFloat32,
                                      .shape = shape,
                                      .strides = strides,
                                      .byte_offset = 4}};
  const ImportedTensor tensor(&foreign);
  CHECK(tensor.data() == &numbers[1]);
  CHECK(tensor.device() == Device::cpu());
  CHECK(tensor.is_read_only());
  CHECK_FALSE(tensor.is_contiguous());
  strides[0] = 4;
  strides[1] = 1;
  CHECK(tensor.is_contiguous());
  shape[0] = INT64_MAX;
  CHECK(tensor.is_contiguous());
  shape[1] = INT64_MAX;
  CHECK_FALSE(tensor.is_contiguous());
  shape[0] = 0;
  CHECK(tensor.is_contiguous());
  foreign.tensor.strides = nullptr;
  CHECK(tensor.is_contiguous());
  foreign.version.major = 2;
  CHECK_THROWS_AS(ImportedTensor{&foreign}, NotSupported);
  foreign.version.major = 1;
  foreign.tensor.device.device_type = 10;
  CHECK_THROWS_AS(ImportedTensor{&foreign}, NotSupported);
  CHECK_THROWS_AS(ImportedTensor{nullptr}, InvalidArgument);
}

TEST_CASE_FIXTURE(DlpackTest, "a block stays with the caller if its export is refused") {
  const Stream own = stream();
  Allocation block = memory.allocate(24, own);
  for (const Shape& shape :
       {Shape{7}, Shape{-1}, Shape{2, -3}, Shape{INT64_MAX, 3}, Shape{INT64_MAX, 1}}) {
    CHECK_THROWS_AS(static_cast<void>(dlpack::export_tensor(std::move(block), shape, kFloat32)),
                    InvalidArgument);
    CHECK(block.bytes() == 24);
  }
  for (const dlpack::DataType type : {DataType{kFloat32.code, 0}, DataType{kFloat32.code, 32, 0}}) {
    CHECK_THROWS_AS(static_cast<void>(dlpack::export_tensor(std::move(block), Shape{6}, type)),
                    InvalidArgument);
    CHECK(block.bytes() == 24);
  }
  for (const Shape& shape : {Shape{}, Shape{0}, Shape{6}, Shape{0, INT64_MAX, INT64_MAX}}) {
    ImportedTensor tensor(dlpack::export_tensor(memory.allocate(24, own), shape, kFloat32));
    CHECK(tensor.is_contiguous());
  }
}

TEST_CASE_FIXTURE(DlpackTest,
                  "the consumer waits for the producer's work, and reuse for the consumer's") {
  const Stream own = stream();
  const Stream consumer = stream();
  Allocation block = memory.allocate(40_MiB, own);
  log.submit(own, "write");
  ManagedTensor* const given =
      dlpack::export_tensor(std::move(block), Shape{10'485'760}, kFloat32,
                            dlpack::HostKind::pageable, &*runtime, consumer);
  log.submit(consumer, "read");
  given->deleter(given);
  CHECK(counters().blocks_pending.current == 1);
  CHECK_FALSE(log.is_done("read"));
  consumer.ref().sync();
  CHECK(log.is_done("write"));
  CHECK(log.is_done("read"));
}

TEST_CASE_FIXTURE(DlpackTest, "devices are exported with DLPack's device types") {
  CHECK(dlpack::to_number(Device::cpu()).device_type == dlpack::kCpu);
  CHECK(dlpack::to_number(Device::cpu(), dlpack::HostKind::pinned).device_type ==
        dlpack::kCudaHost);
  CHECK(dlpack::to_number(Device::cuda(3)).device_id == 3);
  CHECK(dlpack::to_device({dlpack::kCuda, 3}) == Device::cuda(3));
  CHECK_THROWS_AS(static_cast<void>(dlpack::to_number(Device::cuda())), NotSupported);
  ImportedTensor pinned(dlpack::export_tensor(runtime->pinned_memory().allocate(24), Shape{6},
                                              kFloat32, dlpack::HostKind::pinned));
  CHECK(pinned.tensor().device.device_type == dlpack::kCudaHost);
}

}  // namespace
}  // namespace berth::test
