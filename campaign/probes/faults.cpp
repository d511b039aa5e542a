// SPDX-License-Identifier: Apache-2.0
// campaign_faults: the effects of work that fails on the device, on its process and on others. Each
// fault happens in a child. The child must receive an error that names CUDA's error, and must end
// by itself; the memory, copies and allocations of its parent must not be affected.
//
//   campaign_faults --child CASE    is such a child: it prints a line for each thing that it finds
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "berth/bytes.hpp"
#include "berth/error.hpp"
#include "berth/runtime.hpp"

#include "base/env.hpp"
#include "probes/child.hpp"
#include "probes/kernels.hpp"
#include "probes/machine.hpp"
#include "probes/rows.hpp"

namespace {

using namespace berth;
using namespace berth::campaign;
using namespace std::chrono_literals;

constexpr std::size_t kBytes = 64_MiB;
constexpr std::size_t kHeld = 2_GiB;  ///< by a child that is killed
constexpr auto kKernel = 60s;         ///< of a child that is killed: practically forever
constexpr std::uint64_t kSeed = 17;

CUdeviceptr address_of(const Allocation& block) {
  return reinterpret_cast<CUdeviceptr>(block.data());
}

/// A Runtime with a block and a stream.
struct Owner {
  explicit Owner(const Machine& machine) : kernels(machine) {}

  const Kernels kernels;
  Runtime runtime;
  DeviceAllocator& memory = runtime.memory(Device::cuda(0));
  const Stream stream = runtime.create_stream(Device::cuda(0));
  const Allocation block = memory.allocate(kBytes, stream);
  const CUstream native = stream.ref().native();
};

bool is_simulated() {
  return env("BERTH_DRIVER") == "sim";
}

// ---- In the child

/// `waits`: for the device, which must report the failure.
void say(std::string_view what, bool waits, std::string_view value) {
  const Json line = {{"what", what}, {"waits", waits}, {"value", value}};
  std::puts(line.dump(-1, ' ', false, Json::error_handler_t::replace).c_str());
  std::fflush(stdout);
}

void trap(const Machine&, Owner& owner) {
  owner.kernels.fail(owner.native);
}

/// An address at which no memory was ever mapped.
void write_elsewhere(const Machine& machine, Owner& owner) {
  const CUdeviceptr anywhere = 0;
  CUdeviceptr address = 0;
  machine.driver().mem_address_reserve(&address, kBytes, std::size_t{0}, anywhere, 0ULL);
  owner.kernels.fill(owner.native, address, kBytes, kSeed);
}

/// The address of a block whose memory was returned to the driver.
void write_after_trim(const Machine& machine, Owner& owner) {
  const CUdeviceptr address = [&] {
    const Allocation block = owner.memory.allocate(kBytes, owner.stream);
    return address_of(block);
  }();
  machine.driver().ctx_synchronize();
  owner.memory.trim();
  owner.kernels.fill(owner.native, address, kBytes, kSeed);
}

/// Only a simulated driver lets this fail for certain: hardware may wait for the work.
void unmap_under_work(const Machine& machine, Owner& owner) {
  const Driver& driver = machine.driver();
  const CUmemAllocationProp properties = machine.physical_memory();
  const CUmemAccessDesc access = machine.access();
  const CUdeviceptr anywhere = 0;
  CUdeviceptr address = 0;
  CUmemGenericAllocationHandle handle = 0;
  driver.mem_address_reserve(&address, kBytes, std::size_t{0}, anywhere, 0ULL);
  driver.mem_create(&handle, kBytes, &properties, 0ULL);
  driver.mem_map(address, kBytes, std::size_t{0}, handle, 0ULL);
  driver.mem_set_access(address, kBytes, &access, std::size_t{1});
  owner.kernels.spin(owner.native, 50ms);
  driver.memset_d8_async(address, static_cast<unsigned char>(1), kBytes, owner.native);
  driver.mem_unmap(address, kBytes);
}

/// The result of each call after the fault.
std::string told_by(const std::function<void()>& call) {
  try {
    call();
    return "";
  } catch (const std::exception& error) {
    return error.what();
  }
}

void fault(const Machine& machine, void (*provoke)(const Machine&, Owner&)) {
  Owner owner(machine);
  std::vector<char> host(kBytes);
  provoke(machine, owner);
  say("a copy", true, told_by([&] {
        owner.runtime.copier().copy(host.data(), owner.block.data(), kBytes, owner.stream);
      }));
  say("an allocation that needs the driver", false,
      told_by([&] { static_cast<void>(owner.memory.allocate(kHeld, owner.stream)); }));
  say("a wait", true, told_by([&] { owner.stream.ref().sync(); }));
}

/// Its memory is free again only after its kernel has been stopped.
void hold_and_wait(const Machine& machine) {
  Owner owner(machine);
  const Allocation held = owner.memory.allocate(kHeld, owner.stream);
  owner.kernels.spin(owner.native, kKernel);
  say("it holds", false, format_bytes(held.bytes()));
  std::this_thread::sleep_for(kKernel);
}

// ---- In the parent

struct Case {
  std::string_view name;
  void (*provoke)(const Machine&, Owner&);
  bool is_simulated = false;
};
constexpr std::array kCases = {
    Case{"a kernel fails", &trap},
    Case{"a kernel writes where nothing is mapped", &write_elsewhere},
    Case{"a kernel writes to a block whose memory was given back", &write_after_trim},
    Case{"memory is unmapped under work that uses it", &unmap_under_work, true},
};
constexpr std::string_view kKilled = "a process is killed while its kernel runs";

/// Checks that the parent is not affected.
Json state_of(Owner& owner) {
  std::vector<char> host(kBytes);
  owner.runtime.copier().copy(host.data(), owner.block.data(), kBytes, owner.stream);
  const Allocation other = owner.memory.allocate(2 * kBytes, owner.stream);
  owner.kernels.fill(owner.native, address_of(other), 2 * kBytes, kSeed);
  return {{"words_wrong_here",
           owner.kernels.mismatches(owner.native, address_of(owner.block), kBytes, kSeed) +
               owner.kernels.mismatches(owner.native, address_of(other), 2 * kBytes, kSeed)}};
}

void require_unharmed(const Json& state) {
  if (state["words_wrong_here"] != 0) throw std::runtime_error("words of the parent are wrong");
}

void measure_fault(Owner& owner, const Case& each) {
  const std::string row(each.name);
  if (each.is_simulated && !is_simulated()) return;
  if (!each.is_simulated && !owner.kernels.are_real())
    return add_row("faults", row, {{"skipped", "no kernel runs here"}});
  Child child(row);
  std::string told;
  std::size_t named = 0;  // of the copy and the wait, how many name CUDA's error
  while (const auto line = child.line()) {
    const Json found = Json::parse(*line);
    const std::string value = found["value"];
    if (found["waits"] && value.find("CUDA_ERROR_") != std::string::npos) ++named;
    told += (told.empty() ? "" : "; ") + found["what"].get<std::string>() + ": " +
            (value.empty() ? "no error" : value);
  }
  const int status = child.wait();
  Json values = {{"told", told}};
  values.update(state_of(owner));
  const bool is_good = status == 0 && named == 2;
  if (!is_good) values["outcome"] = fmt::format("failed, the child ended with {}", status);
  add_row("faults", row, values);
  require_unharmed(values);
  if (!is_good) throw std::runtime_error(fmt::format("{}: {}", row, told));
}

void measure_killed(const Machine& machine, Owner& owner) {
  const std::string row(kKilled);
  const std::size_t before = machine.bytes_free();
  Child child(row);
  if (!child.line()) throw std::runtime_error("the child says nothing");
  const std::size_t held = before - std::min(machine.bytes_free(), before);
  const auto begin = std::chrono::steady_clock::now();
  child.kill();
  child.wait();
  while (machine.bytes_free() + kHeld / 2 < before && std::chrono::steady_clock::now() - begin < 5s)
    std::this_thread::sleep_for(1ms);
  const std::chrono::nanoseconds took = std::chrono::steady_clock::now() - begin;
  Json values = {{"ns_until_its_memory_was_free", took.count()}, {"bytes_held", held}};
  values.update(state_of(owner));
  add_row("faults", row, values);
  require_unharmed(values);
  if (took >= 5s) throw std::runtime_error("the memory of a killed process is not free after 5 s");
}

/// Runs the cases from that number on, counted from 1.
void measure(const Machine& machine, std::size_t first) {
  Owner owner(machine);
  owner.kernels.fill(owner.native, address_of(owner.block), kBytes, kSeed);
  for (std::size_t number = first; number <= kCases.size() + 1; ++number) {
    const bool is_last = number > kCases.size();
    const std::string row(is_last ? kKilled : kCases[number - 1].name);
    begin_case("faults", row);
    attempt("faults", row + ", in all", [&] {
      if (is_last) return measure_killed(machine, owner);
      measure_fault(owner, kCases[number - 1]);
    });
  }
}

int run_child(std::string_view name) {
  // A simulated driver must leave work pending, as hardware does.
  if (is_simulated()) {
    const std::string text = env("BERTH_SIM").value_or("");
    if (text.find("progress=") == std::string::npos)
      setenv("BERTH_SIM", (text + (text.empty() ? "" : ",") + "progress=manual").c_str(), 1);
  }
  return run_on_machine([name](const Machine& machine) {
    if (name == kKilled) return hold_and_wait(machine);
    const auto* const found = std::ranges::find(kCases, name, &Case::name);
    if (found == kCases.end()) throw std::runtime_error("no such case");
    fault(machine, found->provoke);
  });
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 3 && std::string_view(argv[1]) == "--child") return run_child(argv[2]);
  const std::size_t first = first_case(argc, argv);
  return run_on_machine([first](const Machine& machine) { measure(machine, first); });
}
