// SPDX-License-Identifier: Apache-2.0
// Names of memory in findings, given by the program itself or through NVTX.
#include "sim/check/memory_names.hpp"

#include <string>
#include <string_view>
#include <vector>

#include "sim/nvtx/abi.hpp"
#include "sim/sim_fixture.hpp"
#include "support/errors.hpp"

extern "C" int InitializeInjectionNvtxExtension(berth::nvtx::ModuleInfo* module);

namespace memory_names_test {

using namespace berth;
using namespace berth::test;
using sim::MemoryNames;

namespace {

/// The finding of two fills that race.
std::string race_at(EagerFixture& fixture, CUdeviceptr at, std::size_t bytes) {
  OK(CU(cuCtxSynchronize)());
  OK(CU(cuMemsetD8Async)(at, 1, bytes, make_stream()));
  OK(CU(cuMemsetD8Async)(at, 2, bytes, make_stream()));
  const std::vector<std::string> findings = fixture.sim.take_findings();
  REQUIRE(findings.size() == 1);
  return findings.front();
}

void* pointer_to(CUdeviceptr address) {
  return reinterpret_cast<void*>(address);
}

/// The functions of NVTX's memory extension, attached as NVTX does it.
struct Nvtx {
  Nvtx() {
    nvtx::ModuleSegment segment{1, 63, slots};
    nvtx::ModuleInfo module{
        3,       sizeof module, nvtx::kMemoryModule, nvtx::kMemoryCompatibility, 1, &segment,
        nullptr, nullptr};
    REQUIRE(InitializeInjectionNvtxExtension(&module) == 1);
  }
  template <class Result = void, class... Arguments>
  Result call(nvtx::MemoryFunction function, Arguments... arguments) const {
    return reinterpret_cast<Result (*)(void*, Arguments...)>(slots[function])(nullptr,
                                                                              arguments...);
  }

  [[nodiscard]] nvtx::Handle add_heap(CUdeviceptr start, std::size_t bytes,
                                      const char* name) const {
    const nvtx::VirtualRange range{bytes, start};
    const nvtx::HeapDescription heap{nvtx::kMemoryCompatibility,
                                     sizeof heap,
                                     0,
                                     1,
                                     nvtx::kVirtualAddress,
                                     sizeof range,
                                     &range,
                                     0,
                                     nvtx::kAscii,
                                     name};
    return call<nvtx::Handle>(nvtx::kHeapRegister, &heap);
  }
  nvtx::Handle add(CUdeviceptr start, std::size_t bytes, nvtx::Handle heap = 0) const {
    const nvtx::VirtualRange range{bytes, start};
    nvtx::Handle handle = 0;
    const nvtx::RegisteredRegions batch{nvtx::kMemoryCompatibility,
                                        sizeof batch,
                                        nvtx::kVirtualAddress,
                                        heap,
                                        1,
                                        sizeof range,
                                        &range,
                                        &handle};
    call(nvtx::kRegionsRegister, &batch);
    return handle;
  }
  void resize(CUdeviceptr start, std::size_t bytes) const {
    const nvtx::VirtualRange range{bytes, start};
    const nvtx::ResizedRegions batch{
        nvtx::kMemoryCompatibility, sizeof batch, nvtx::kVirtualAddress, 1, sizeof range, &range};
    call(nvtx::kRegionsResize, &batch);
  }
  void remove(nvtx::Handle region) const {
    const nvtx::UnregisteredRegions batch{
        nvtx::kMemoryCompatibility, sizeof batch, 2, 1, sizeof region, &region};
    call(nvtx::kRegionsUnregister, &batch);
  }
  void name(nvtx::Handle region, const void* text, nvtx::TextType type = nvtx::kAscii) const {
    const nvtx::NamedRegion named{1, type, region, text, 0, 0};
    const nvtx::NamedRegions batch{
        nvtx::kMemoryCompatibility, sizeof batch, 0, 1, sizeof named, &named, 0};
    call(nvtx::kRegionsName, &batch);
  }

  std::intptr_t slots[63]{};
};

}  // namespace

TEST_CASE("a name of memory lasts for the bytes that are not named again") {
  MemoryNames names;
  CHECK(names.describe(0, 100).empty());
  names.set(1000, 100, "outer");
  CHECK(names.describe(1000, 1) == " (outer)");
  CHECK(names.describe(1040, 8) == " (outer + 40)");
  CHECK(names.describe(900, 150) == " (outer)");
  CHECK(names.describe(900, 100).empty());
  CHECK(names.describe(1100, 100).empty());
  names.set(1010, 20, "inner");
  CHECK(names.describe(1010, 4) == " (inner)");
  CHECK(names.describe(1005, 5) == " (outer + 5)");
  CHECK(names.describe(1030, 4) == " (outer + 30)");
  CHECK(names.describe(1000, 100) == " (outer, inner)");
  names.set(1050, 10, "third");
  CHECK(names.describe(1000, 100) == " (outer, inner and more)");
  names.forget(1000, 60);
  CHECK(names.describe(1000, 60).empty());
  CHECK(names.describe(1060, 4) == " (outer + 60)");
  names.forget(0, ~std::uint64_t{0});
  CHECK(names.empty());
  names.set(~std::uint64_t{0} - 8, 100, "the end");
  CHECK(names.describe(~std::uint64_t{0} - 4, 1) == " (the end + 4)");
  names.set(5, 1, "two\nlines");
  CHECK(names.describe(5, 1) == " (two\\x0alines)");
}

TEST_CASE_FIXTURE(EagerFixture, "a race names the memory of both uses") {
  const CUdeviceptr memory = make_memory(4096);
  sim.name_memory(pointer_to(memory), 4096, "batch");
  CHECK(contains(race_at(*this, memory, 4096), "writes 4096 B at"));
  sim.name_memory(pointer_to(memory), 0, "nothing");
  const std::string inside = race_at(*this, memory + 1024, 16);
  CHECK(contains(inside, " (batch + 1024), while cuMemsetD8Async"));
  CHECK(contains(inside, " (batch + 1024); nothing orders"));
  CU(berthSimNameMemory)(pointer_to(memory), 4096, nullptr);
  CHECK_FALSE(contains(race_at(*this, memory, 64), "batch"));
}

TEST_CASE_FIXTURE(EagerFixture, "a name ends with its memory") {
  const CUdeviceptr first = make_memory(1_MiB);
  sim.name_memory(pointer_to(first), 1_MiB, "first");
  OK(CU(cuMemFree)(first));
  const CUdeviceptr second = make_memory(1_MiB);
  REQUIRE(second == first);
  CHECK_FALSE(contains(race_at(*this, second, 64), "first"));
}

TEST_CASE_FIXTURE(EagerFixture, "a leak names the memory that is left") {
  sim.name_memory(pointer_to(make_memory(512)), 512, "weights");
  make_memory(512);
  OK(CU(cuDevicePrimaryCtxReset)(0));
  CHECK(sim.take_findings().empty());
  CUcontext own = nullptr;
  OK(CU(cuCtxCreate)(&own, nullptr, 0, 0));
  sim.name_memory(pointer_to(make_memory(512)), 512, "bias");
  make_memory(512);
  OK(CU(cuCtxDestroy)(own));
  CHECK(found_leak(sim, "2 allocations of 1024 B (bias)"));
}

TEST_CASE_FIXTURE(EagerFixture, "NVTX names regions and whole allocations") {
  const Nvtx nvtx;
  const CUdeviceptr memory = make_memory(8192);
  nvtx.name(memory, "pool");
  CHECK(contains(race_at(*this, memory + 4096, 16), " (pool + 4096)"));
  nvtx.name(memory + 16, "inside an allocation");
  CHECK(contains(race_at(*this, memory + 16, 16), " (pool + 16)"));
  nvtx.name(nvtx.add(memory + 1024, 512), L"Gew\u00e4sser \U0001f30a", nvtx::kUnicode);
  CHECK(contains(race_at(*this, memory + 1040, 16), " (Gew\u00e4sser \U0001f30a + 16)"));
  nvtx.resize(memory + 1024, 256);
  CHECK(contains(race_at(*this, memory + 1024, 256), " (Gew\u00e4sser \U0001f30a)"));
  CHECK_FALSE(contains(race_at(*this, memory + 1024 + 256, 16), "Gew"));
  nvtx.remove(memory + 1024);
  CHECK_FALSE(contains(race_at(*this, memory + 1024, 16), "Gew"));
}

TEST_CASE_FIXTURE(EagerFixture, "memory outside the regions of an NVTX heap has the heap's name") {
  const Nvtx nvtx;
  const CUdeviceptr memory = make_memory(8192);
  const nvtx::Handle heap = nvtx.add_heap(memory, 8192, "cache");
  REQUIRE(heap != 0);
  const nvtx::Handle region = nvtx.add(memory + 512, 512, heap);
  nvtx.name(region, "activations");
  CHECK(contains(race_at(*this, memory + 512, 16), " (activations)"));
  CHECK(contains(race_at(*this, memory, 16), " (cache)"));
  nvtx.remove(region);
  CHECK(contains(race_at(*this, memory + 512, 32), " (cache)"));
  nvtx.name(nvtx.add(memory + 512, 512, heap), "gradients");
  nvtx.call(nvtx::kHeapReset, heap);
  CHECK(contains(race_at(*this, memory + 512, 48), " (cache)"));
  nvtx.call(nvtx::kHeapUnregister, heap);
  CHECK_FALSE(contains(race_at(*this, memory + 512, 64), "cache"));
}

TEST_CASE("NVTX calls without a simulator, or with a wrong structure, have no effect") {
  const Nvtx nvtx;
  CHECK(nvtx.add_heap(4096, 64, "nowhere") == 0);
  nvtx.name(4096, "nowhere");
  EagerFixture fixture;
  const CUdeviceptr memory = make_memory(64);
  nvtx::NamedRegion named{1, nvtx::kAscii, memory, "short", 0, 0};
  nvtx::NamedRegions batch{nvtx::kMemoryCompatibility, 16, 0, 1, sizeof named, &named, 0};
  nvtx.call(nvtx::kRegionsName, &batch);
  batch.struct_bytes = sizeof batch;
  batch.stride = 8;
  nvtx.call(nvtx::kRegionsName, &batch);
  const nvtx::NamedRegions* const none = nullptr;
  nvtx.call(nvtx::kRegionsName, none);
  CHECK_FALSE(contains(race_at(fixture, memory, 64), "short"));
  nvtx::ModuleInfo other{3, sizeof other, 2,       nvtx::kMemoryCompatibility,
                         0, nullptr,      nullptr, nullptr};
  CHECK(InitializeInjectionNvtxExtension(&other) == 0);
  CHECK(InitializeInjectionNvtxExtension(nullptr) == 0);
}

}  // namespace memory_names_test
