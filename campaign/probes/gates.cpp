// SPDX-License-Identifier: Apache-2.0
// campaign_gates SETTING: whether copies of pageable memory, which wait on the device for a thread of the host,
// get through and let others through. Run once for each setting of the driver (its environment), which
// SETTING names. Whatever hangs hangs here, and the campaign says where.
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "berth/bytes.hpp"
#include "berth/runtime.hpp"

#include "probes/kernels.hpp"
#include "probes/machine.hpp"
#include "probes/rows.hpp"

namespace {

using namespace berth;
using namespace berth::campaign;
using namespace std::chrono_literals;

constexpr std::size_t kBytes = 32_MiB;
constexpr std::size_t kStreams = 12;     ///< more than hardware has channels by default
constexpr std::size_t kLaunches = 3000;  ///< more than a stream's queue holds

class Gates {
 public:
  explicit Gates(const Machine& machine)
      : machine_(machine),
        kernels_(machine),
        host_(kBytes, 'x'),
        memory_(runtime_.memory(Device::cuda(0))) {
    for (std::size_t index = 0; index < kStreams; ++index)
      streams_.push_back(runtime_.create_stream(Device::cuda(0)));
    target_ = memory_.allocate(kStreams * kBytes, streams_.front());
  }

  void measure(const std::string& setting) {
    add("a copy behind a kernel", setting, [this] {
      kernels_.spin(native(0), 5ms);
      start(0).wait();
    });
    add("a copy on each of 12 streams, each behind a kernel", setting, [this] {
      std::vector<Transfer> transfers;
      for (std::size_t index = 0; index < kStreams; ++index) {
        kernels_.spin(native(index), 2ms);
        transfers.push_back(start(index));
      }
      for (const Transfer& each : transfers) each.wait();
    });
    add("kernels of another stream while a copy waits behind a kernel", setting, [this] {
      kernels_.spin(native(0), 50ms);
      const Transfer transfer = start(0);
      kernels_.spin(native(1), 1ms);
      machine_.driver().stream_synchronize(native(1));
      transfer.wait();
    });
    add("a copy behind 3,000 kernels, more than a queue holds", setting, [this] {
      for (std::size_t index = 0; index < kLaunches; ++index) kernels_.spin(native(0), 1us);
      start(0).wait();
    });
    add("a copy while another stream is captured", setting, [this] {
      machine_.driver().stream_begin_capture(native(1), CU_STREAM_CAPTURE_MODE_GLOBAL);
      start(0).wait();
      machine_.driver().graph_destroy(end_capture(1));
    });
    add("a captured copy of pinned memory, launched 100 times", setting, [this] {
      const Allocation pinned = runtime_.pinned_memory().allocate(kBytes);
      machine_.driver().stream_begin_capture(native(0), CU_STREAM_CAPTURE_MODE_GLOBAL);
      runtime_.copier().copy_async(target_.data(), pinned.data(), kBytes, streams_[0]);
      CUgraph graph = end_capture(0);
      CUgraphExec copies = nullptr;
      machine_.driver().graph_instantiate(&copies, graph, 0ULL);
      for (int launch = 0; launch < 100; ++launch)
        machine_.driver().graph_launch(copies, native(0));
      machine_.driver().stream_synchronize(native(0));
      machine_.driver().graph_exec_destroy(copies);
      machine_.driver().graph_destroy(graph);
    });
  }

 private:
  [[nodiscard]] CUgraph end_capture(std::size_t stream) const {
    CUgraph graph = nullptr;
    machine_.driver().stream_end_capture(native(stream), &graph);
    return graph;
  }
  template <class Action>
  void add(const std::string& row, const std::string& setting, const Action& action) {
    const std::uint64_t took = nanoseconds_of(action);
    machine_.driver().ctx_synchronize();
    add_row("gates", row + ", " + setting, {{"ns_took", took}});
  }
  Transfer start(std::size_t stream) {
    auto* const to = static_cast<char*>(target_.data()) + stream * kBytes;
    return runtime_.copier().start(to, host_.data(), kBytes, streams_[stream]);
  }
  [[nodiscard]] CUstream native(std::size_t stream) const {
    return streams_[stream].ref().native();
  }

  const Machine& machine_;
  const Kernels kernels_;
  const std::vector<char> host_;
  Runtime runtime_;
  DeviceAllocator& memory_;
  std::vector<Stream> streams_;
  Allocation target_;
};

}  // namespace

int main(int argc, char** argv) {
  const std::string setting = argc == 2 ? argv[1] : "as the environment says";
  return run_on_machine([&](const Machine& machine) { Gates(machine).measure(setting); });
}
