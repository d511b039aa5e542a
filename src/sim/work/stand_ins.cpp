// SPDX-License-Identifier: Apache-2.0
#include "sim/work/stand_ins.hpp"

#include <functional>
#include <map>
#include <new>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

#include "base/demangled.hpp"
#include "base/mutex.hpp"
#include "driver/sim_kernel_abi.hpp"
#include "sim/functions.hpp"
#include "sim/lock.hpp"

namespace berth::sim {
namespace {

using StandIns = std::map<std::string, std::shared_ptr<const KernelStandIn>, std::less<>>;

StandIns& stand_ins() BERTH_REQUIRES(mutex) {
  static auto* const all = new StandIns;  // never destroyed: kernels may be launched at exit
  return *all;
}

/// "scale<float>" of "void scale<float>(float*, int)"; empty: the name is not mangled.
std::string source_name(const std::string& kernel) {
  const std::string whole = demangled(kernel);
  constexpr std::string_view returns = "void ";
  std::string_view name = whole;
  if (name.starts_with(returns)) name.remove_prefix(returns.size());
  // The parameters start at the last parenthesis of depth 0.
  std::size_t depth = 0;
  for (std::size_t at = name.size(); at-- != 0;) {
    if (name[at] == ')') ++depth;
    if (name[at] == '(' && --depth == 0) return std::string(name.substr(0, at));
  }
  return std::string(name);
}

/// The arguments of one launch, for stand-ins registered from other languages.
class ForeignWork {
 public:
  explicit ForeignWork(const sim_abi::KernelWork& work) : work_(work) {}
  ~ForeignWork() {
    if (work_.release != nullptr) work_.release(work_.data);
  }
  ForeignWork(const ForeignWork&) = delete;
  ForeignWork& operator=(const ForeignWork&) = delete;

  void compute(KernelMemory ranges) const {
    std::vector<void*> starts;
    for (const std::span<std::byte> range : ranges) starts.push_back(range.data());
    work_.compute(starts.data(), work_.data);
  }

 private:
  sim_abi::KernelWork work_;
};

Kernel describe(sim_abi::KernelStandIn* stand_in, void* data, const KernelLaunch& launch) {
  const std::string name(launch.name);
  const sim_abi::KernelLaunch given{.name = name.c_str(),
                                    .grid = {launch.grid[0], launch.grid[1], launch.grid[2]},
                                    .block = {launch.block[0], launch.block[1], launch.block[2]},
                                    .shared_bytes = launch.shared_bytes,
                                    .arguments = launch.arguments};
  sim_abi::KernelWork work{};
  if (stand_in(&given, &work, data) != 0) throw std::runtime_error("its stand-in refused it");
  const auto kept = std::make_shared<const ForeignWork>(work);
  Kernel kernel{.duration_ns = work.duration_ns};
  for (const sim_abi::KernelUse& use : std::span(work.uses, work.use_count))
    kernel.uses.push_back({use.address, use.bytes, use.writes != 0});
  if (work.compute != nullptr)
    kernel.compute = [kept](KernelMemory ranges) { kept->compute(ranges); };
  return kernel;
}

}  // namespace

void set_stand_in(const std::string& name, KernelStandIn stand_in) {
  std::shared_ptr<const KernelStandIn> given;
  if (stand_in) given = std::make_shared<const KernelStandIn>(std::move(stand_in));
  StandIns::node_type removed;  // destroyed without the lock, as it is code of the program
  const MutexLock lock(mutex);
  removed = stand_ins().extract(name);
  if (given != nullptr) stand_ins().emplace(name, std::move(given));
}

std::shared_ptr<const KernelStandIn> find_stand_in(std::string_view kernel) {
  const std::string name(kernel);
  const std::string source = source_name(name);
  const MutexLock lock(mutex);
  for (const std::string& key : {name, source})
    if (const auto found = stand_ins().find(key); found != stand_ins().end()) return found->second;
  return nullptr;
}

int berth_sim_berthSimStandInForKernel(const char* name, sim_abi::KernelStandIn* stand_in,
                                       void* data) {
  if (name == nullptr || *name == '\0') return 1;
  if (stand_in == nullptr)
    set_stand_in(name, nullptr);
  else
    set_stand_in(name, [stand_in, data](const KernelLaunch& launch) {
      return describe(stand_in, data, launch);
    });
  return 0;
}

}  // namespace berth::sim
