// SPDX-License-Identifier: Apache-2.0
#include "sim/misuses/machine.hpp"

#include <cctype>
#include <regex>

#include <fmt/format.h>

namespace berth::test {
namespace {

constexpr std::uint64_t kKernelNs = 2'000;

/// Replaces `token` where it does not go on as a longer number.
void replace_token(std::string& text, const std::string& token, const std::string& by) {
  for (std::size_t at = 0; (at = text.find(token, at)) != text.npos;) {
    const std::size_t end = at + token.size();
    const bool is_whole = end == text.size() || std::isxdigit(text[end]) == 0;
    if (is_whole) text.replace(at, token.size(), by);
    at += is_whole ? by.size() : 1;
  }
}

}  // namespace

void check(const char* function, CUresult result) {
  if (result == CUDA_SUCCESS) return;
  const char* error = nullptr;
  CU(cuGetErrorName)(result, &error);
  throw Failure{fmt::format("{}: {}", function, error)};
}

Machine::Machine(const std::string& mode, bool plant)
    : planted(plant),
      sim(fmt::format("devices=2,memory=64MiB,granularity={},{}", kMachineGranule, mode)) {
  TRY(cuInit, 0);
  TRY(cuDevicePrimaryCtxRetain, &context, 0);
  TRY(cuCtxSetCurrent, context);
  retained_.push_back(0);
}

CUstream Machine::stream(const char* called, unsigned flags) {
  CUstream made = nullptr;
  TRY(cuStreamCreateWithPriority, &made, flags, 0);
  name(made, called);
  closers_.emplace_back([made] { TRY(cuStreamDestroy, made); });
  return made;
}

CUevent Machine::event(unsigned flags) {
  CUevent made = nullptr;
  TRY(cuEventCreate, &made, flags);
  closers_.emplace_back([made] { TRY(cuEventDestroy, made); });
  return made;
}

CUdeviceptr Machine::memory(const char* called, std::size_t bytes) {
  CUdeviceptr made = 0;
  TRY(cuMemAlloc, &made, bytes);
  name(made, bytes, called);
  closers_.emplace_back([made] { TRY(cuMemFree, made); });
  return made;
}

CUdeviceptr Machine::pinned(const char* called, std::size_t bytes) {
  void* made = nullptr;
  TRY(cuMemHostAlloc, &made, bytes, 0);
  name(address_of(made), bytes, called);
  closers_.emplace_back([made] { TRY(cuMemFreeHost, made); });
  return address_of(made);
}

CUcontext Machine::second_context() {
  CUcontext second = nullptr;
  TRY(cuDevicePrimaryCtxRetain, &second, 1);
  retained_.push_back(1);
  return second;
}

CUdeviceptr Machine::reserve(const char* called) {
  CUdeviceptr address = 0;
  TRY(cuMemAddressReserve, &address, kMachineGranule, 0, 0, 0);
  name(address, kMachineGranule, called);
  return address;
}

CUmemGenericAllocationHandle Machine::create(int device) {
  CUmemGenericAllocationHandle physical = 0;
  const CUmemAllocationProp properties = properties_on(device);
  TRY(cuMemCreate, &physical, kMachineGranule, &properties, 0);
  return physical;
}

void Machine::map(CUdeviceptr address, CUmemGenericAllocationHandle physical) {
  TRY(cuMemMap, address, kMachineGranule, 0, physical, 0);
}

void Machine::allow(CUdeviceptr address, int device, CUmemAccess_flags flags) {
  const CUmemAccessDesc access = access_for(device, flags);
  TRY(cuMemSetAccess, address, kMachineGranule, &access, 1);
}

CUdeviceptr Machine::map_new(const char* called, int device) {
  const CUdeviceptr address = reserve(called);
  const CUmemGenericAllocationHandle physical = create(device);
  map(address, physical);
  TRY(cuMemRelease, physical);
  allow(address, device);
  return address;
}

void Machine::unmap(CUdeviceptr address) {
  TRY(cuMemUnmap, address, kMachineGranule);
  TRY(cuMemAddressFree, address, kMachineGranule);
}

void Machine::launch(CUstream stream, const sim::MemoryUse& use) {
  if (!sim.launch(stream, kKernelNs, {use})) throw Failure{"a kernel: not launched"};
}

void Machine::launch_reading(CUstream stream, CUdeviceptr address, std::size_t bytes) {
  launch(stream, {address, bytes, false});
}

void Machine::launch_writing(CUstream stream, CUdeviceptr address, std::size_t bytes) {
  launch(stream, {address, bytes, true});
}

CUgraphExec Machine::captured(CUstream stream, const std::function<void()>& body) {
  CUgraph graph = nullptr;
  CUgraphExec executable = nullptr;
  TRY(cuStreamBeginCapture, stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
  body();
  TRY(cuStreamEndCapture, stream, &graph);
  TRY(cuGraphInstantiateWithFlags, &executable, graph, 0);
  TRY(cuGraphDestroy, graph);
  closers_.emplace_back([executable] { TRY(cuGraphExecDestroy, executable); });
  return executable;
}

void Machine::name(CUdeviceptr address, std::size_t bytes, const char* called) {
  names_.emplace_back(fmt::format("{} B at {:#x}", bytes, address), called);
  names_.emplace_back(fmt::format("{:#x}, {} B", address, bytes), called);
}

void Machine::name(const void* handle, const char* called) {
  names_.emplace_back(fmt::format("{:#x}", reinterpret_cast<std::uint64_t>(handle)), called);
}

void Machine::close() {
  while (!closers_.empty()) {
    const std::function<void()> closer = std::move(closers_.back());
    closers_.pop_back();
    closer();
  }
  for (const CUdevice device : std::exchange(retained_, {})) TRY(cuDevicePrimaryCtxRelease, device);
}

std::string Machine::in_own_names(std::string text) const {
  for (const auto& [token, called] : names_) replace_token(text, token, called);
  return text;
}

std::vector<std::string> Machine::findings() {
  static const std::regex call_number(" \\(call [0-9]+\\)");
  std::vector<std::string> findings;
  for (const std::string& finding : sim.take_findings())
    findings.push_back(in_own_names(std::regex_replace(finding, call_number, "")));
  return findings;
}

std::vector<std::string> Machine::alive() {
  std::vector<std::string> alive;
  for (const std::string& line : sim.live_list())
    alive.push_back(fmt::format("alive: {}", in_own_names(line)));
  return alive;
}

}  // namespace berth::test
