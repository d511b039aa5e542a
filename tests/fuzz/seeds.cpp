// SPDX-License-Identifier: Apache-2.0
#include "fuzz/actions.hpp"
#include "fuzz/generator.hpp"
#include "fuzz/setup.hpp"

namespace berth::fuzz {
namespace {

constexpr const char* kModes[] = {"eager", "manual", "random", "timed"};
constexpr std::uint8_t kGone = kHostile;

void start(Writer& writer) {
  writer.act("cuInit").act("cuDevicePrimaryCtxRetain").act("cuCtxPushCurrent");
}

void streams_and_events(Writer& writer) {
  start(writer);
  writer.act("cuStreamCreateWithPriority").act("cuStreamCreateWithPriority");
  writer.act("cuMemAlloc").act("cuEventCreate");
  writer.act("cuMemsetD8Async").act("cuEventRecord", {0, 0}).act("cuStreamWaitEvent", {1, 0});
  writer.act("cuMemcpyAsync", {0x80, 0, 0, 0, 0, 1}).act("cuMemcpyAsync", {0, 0, 0x80, 0, 0, 1});
  writer.act("cuLaunchHostFunc").act("cuEventQuery").act("run_next").act("launch");
  writer.act("cuEventSynchronize").act("cuStreamSynchronize", {1}).act("cuCtxSynchronize");
  writer.act("cuStreamDestroy").act("cuEventDestroy").act("cuMemFree");
  writer.act("cuStreamQuery", {kGone}).act("cuMemFree", {kGone});
}

void a_race(Writer& writer) {
  start(writer);
  writer.act("cuStreamCreateWithPriority").act("cuStreamCreateWithPriority").act("cuMemAlloc");
  writer.act("cuMemsetD8Async", {0, 0, 0, 0, 0}).act("cuMemsetD8Async", {0, 0, 0, 0, 1});
  writer.act("run_all").act("take_findings");
}

void virtual_memory(Writer& writer) {
  start(writer);
  writer.act("cuMemAddressReserve").act("cuMemCreate").act("cuMemMap").act("cuMemSetAccess");
  writer.act("cuMemcpyAsync", {0x40, 0, 0x80}).act("cuMemRelease").act("cuMemUnmap");
  writer.act("cuMemAddressFree");
}

void pinned_memory(Writer& writer) {
  start(writer);
  writer.act("cuMemAlloc").act("cuMemHostAlloc").act("cuMemcpyAsync", {0, 0, 0x60});
  writer.act("cuMemHostRegister").act("cuMemcpyAsync", {0x80, 0, 0});
  writer.act("cuMemHostUnregister").act("cuMemFreeHost");
}

void graphs(Writer& writer) {
  start(writer);
  writer.act("cuStreamCreateWithPriority").act("cuStreamCreateWithPriority").act("cuMemAlloc");
  writer.act("cuEventCreate").act("cuStreamBeginCapture").act("cuMemsetD8Async");
  writer.act("cuEventRecord").act("cuStreamWaitEvent", {1}).act("cuMemsetD8Async", {0, 0, 0, 0, 1});
  writer.act("cuStreamGetCaptureInfo").act("cuEventRecord", {0, 1}).act("cuStreamWaitEvent");
  writer.act("cuStreamEndCapture").act("cuGraphGetNodes", {0, 0, 8}).act("cuGraphAddEmptyNode");
  writer.act("cuGraphInstantiateWithFlags").act("cuGraphLaunch").act("cuGraphLaunch", {0, 1});
  writer.act("run_next").act("cuGraphExecDestroy").act("cuGraphDestroy").act("cuCtxSynchronize");
}

void two_devices(Writer& writer) {
  start(writer);
  writer.act("cuMemAlloc").act("cuDevicePrimaryCtxRetain", {0, 1}).act("cuCtxPushCurrent");
  writer.act("cuMemAlloc").act("cuCtxEnablePeerAccess", {1});
  writer.act("cuMemcpyPeerAsync", {0, 0, 0, 1, 0, 1}).act("cuMemcpyAsync", {0, 0, 1});
  writer.act("cuDevicePrimaryCtxRelease").act("cuCtxPopCurrent");
}

void shared_memory(Writer& writer) {
  start(writer);
  writer.act("cuMemCreate", {0, 0, 3}).act("cuMemExportToShareableHandle");
  writer.act("cuMemImportFromShareableHandle").act("cuMemAddressReserve").act("cuMemMap");
  writer.act("cuMemSetAccess").act("cuMemGetAccess").act("cuMemRetainAllocationHandle");
  writer.act("cuMemGetAllocationPropertiesFromHandle").act("cuMemRelease").act("cuMemUnmap");
}

void pools(Writer& writer) {
  furnish(writer);
  writer.act("cuMemPoolCreate").act("cuMemAllocFromPoolAsync").act("cuMemsetD8Async");
  writer.act("cuMemPoolSetAccess")
      .act("cuMemFreeAsync")
      .act("cuMemAllocFromPoolAsync", {0, 0, 0, 1});
  writer.act("cuMemAllocAsync").act("cuMemFreeAsync").act("cuMemFree").act("cuDeviceSetMemPool");
  writer.act("cuMemPoolDestroy").act("cuMemPoolTrimTo").act("cuCtxSynchronize");
}

void values(Writer& writer) {
  furnish(writer);
  writer.act("cuStreamWaitValue32", {0, 0, 0, 1}).act("cuStreamWriteValue32", {1});
  writer.act("cuStreamBatchMemOp", {0, 2, 2, 0, 0, 5, 0, 4, 0, 0, 5}).act("cuStreamSynchronize");
  writer.act("cuStreamWaitValue64", {0, 0, 0, 2}).act("cuStreamSynchronize");  // for ever
}

/// Every action there is, one after the other, so that none is beyond the fuzzer.
void everything(Writer& writer) {
  furnish(writer);
  writer.act("nvmlInit_v2").act("nvmlDeviceGetHandleByIndex_v2");
  for (const Action& action : actions()) writer.act(action.name);
}

/// For a device that MIG has split.
void an_instance(Writer& writer) {
  writer.act("nvmlInit_v2").act("nvmlDeviceGetHandleByIndex_v2");
  writer.act("nvmlDeviceGetMigDeviceHandleByIndex").act("nvmlDeviceGetGpuInstanceId");
  writer.act("nvmlDeviceGetComputeInstanceId").act("nvmlDeviceGetAttributes_v2");
  writer.act("nvmlDeviceGetUUID").act("nvmlDeviceGetHandleByUUID", {0x40});
}

}  // namespace

void furnish(Writer& writer) {
  start(writer);
  for (int i = 0; i < 2; ++i)
    writer.act("cuStreamCreateWithPriority").act("cuEventCreate").act("cuMemAlloc");
  writer.act("cuMemHostAlloc").act("cuMemAddressReserve").act("cuMemCreate").act("cuMemMap");
  writer.act("cuMemSetAccess");
}

std::vector<Seed> seeds() {
  constexpr struct {
    const char* name;
    void (*write)(Writer&);
  } programs[] = {
      {"streams_and_events", &streams_and_events},
      {"a_race", &a_race},
      {"virtual_memory", &virtual_memory},
      {"pinned_memory", &pinned_memory},
      {"graphs", &graphs},
      {"two_devices", &two_devices},
      {"shared_memory", &shared_memory},
      {"pools", &pools},
      {"values", &values},
      {"everything", &everything},
  };
  std::vector<Seed> all;
  for (unsigned mode = 0; mode < std::size(kModes); ++mode) {
    for (const auto& [name, write] : programs) {
      Writer writer(mode | kTwoDevices | kOnce);
      write(writer);
      all.push_back({std::string(name) + "-" + kModes[mode], writer.bytes()});
    }
    Writer with_texts(mode, "devices=2,mig=0:2,progress=" + std::string(kModes[mode]),
                      "cuMemAlloc@1=out_of_memory;*@40=lost:1", "1,0");
    an_instance(with_texts);
    everything(with_texts);
    all.push_back({std::string("texts-") + kModes[mode], with_texts.bytes()});
  }
  return all;
}

}  // namespace berth::fuzz
