// SPDX-License-Identifier: Apache-2.0
// campaign_gates SETTING [--first=N]: whether copies of pageable memory, which wait on the device
// for a thread of the host, complete, and let other work complete. Run once for each setting of the
// driver (its environment), which SETTING names. A case that hangs is killed by the campaign, which
// goes on with the next one.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "berth/bytes.hpp"
#include "berth/error.hpp"
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
constexpr std::size_t kLaunches = 3000;  ///< more than a queue holds, which is about 1,024
constexpr auto kQueueStands = 100ms;     ///< the time for which the kernel in front blocks them

class Gates {
 public:
  Gates(const Machine& machine, std::string setting)
      : driver_(machine.driver()),
        machine_(machine),
        kernels_(machine),
        setting_(std::move(setting)),
        host_(kBytes, 'x'),
        memory_(runtime_.memory(Device::cuda(0))) {
    for (std::size_t index = 0; index < kStreams; ++index)
      streams_.push_back(runtime_.create_stream(Device::cuda(0)));
    target_ = memory_.allocate(kStreams * kBytes, streams_.front());
  }

  /// Runs the cases from that number on, counted from 1.
  void measure(std::size_t first) {
    const std::vector<std::pair<std::string, void (Gates::*)()>> cases = {
        {"a copy behind a kernel", &Gates::behind_a_kernel},
        {"a copy on each of 12 streams, each behind a kernel", &Gates::on_many_streams},
        {"kernels of another stream while a copy waits behind a kernel", &Gates::beside_a_kernel},
        {"a copy behind more kernels than a queue holds", &Gates::behind_a_full_queue},
        {"a copy while another thread fills the queue of another stream",
         &Gates::beside_a_full_queue},
        {"a copy while another thread fills the queue of its stream", &Gates::into_a_full_queue},
        {"a copy while another stream is captured", &Gates::beside_a_capture},
        {"a captured copy of pinned memory, launched 100 times", &Gates::captured},
        {"a copy of pageable memory on a captured stream, which is refused", &Gates::refused},
        {"copies behind a graph that waits for the host", &Gates::behind_a_graph_with_a_gate},
    };
    for (std::size_t number = first; number <= cases.size(); ++number) {
      const auto& [name, run] = cases[number - 1];
      const std::string row = name + ", " + setting_;
      begin_case("gates", row);
      const Place place = {{"case", name}, {"setting", setting_}};
      attempt("gates", row, [&, run = run] {
        const std::uint64_t took = nanoseconds_of([&] { (this->*run)(); });
        driver_.ctx_synchronize();
        add_row_at("gates", place,
                   skipped_.empty() ? Json{{"ns_took", took}} : Json{{"skipped", skipped_}});
        skipped_.clear();
      });
    }
  }

 private:
  void behind_a_kernel() {
    kernels_.spin(native(0), 5ms);
    start(0).wait();
  }

  void on_many_streams() {
    std::vector<Transfer> transfers;
    for (std::size_t index = 0; index < kStreams; ++index) {
      kernels_.spin(native(index), 2ms);
      transfers.push_back(start(index));
    }
    for (const Transfer& each : transfers) each.wait();
  }

  void beside_a_kernel() {
    kernels_.spin(native(0), 50ms);
    const Transfer transfer = start(0);
    kernels_.spin(native(1), 1ms);
    driver_.stream_synchronize(native(1));
    transfer.wait();
  }

  /// The launches wait in the driver until the kernel in front has ended.
  void fill_queue(std::size_t stream) const {
    kernels_.spin(native(stream), kQueueStands);
    for (std::size_t index = 0; index < kLaunches; ++index) kernels_.spin(native(stream), 1us);
  }

  void behind_a_full_queue() {
    fill_queue(0);
    start(0).wait();
  }

  void beside_a_full_queue() { copy_while_another_thread_fills(1); }
  void into_a_full_queue() { copy_while_another_thread_fills(0); }

  void copy_while_another_thread_fills(std::size_t stream) {
    std::exception_ptr failure;
    {
      const std::jthread filler([&] {
        try {
          machine_.enter_thread();
          fill_queue(stream);
        } catch (...) {
          failure = std::current_exception();
        }
      });
      std::this_thread::sleep_for(kQueueStands / 4);  // the queue is full by then
      start(0).wait();
    }
    if (failure) std::rethrow_exception(failure);
    driver_.stream_synchronize(native(stream));
  }

  void beside_a_capture() {
    driver_.stream_begin_capture(native(1), CU_STREAM_CAPTURE_MODE_GLOBAL);
    const CapturedGraph graph(*this, 1);
    start(0).wait();
  }

  void captured() {
    const Allocation pinned = runtime_.pinned_memory().allocate(kBytes);
    driver_.stream_begin_capture(native(0), CU_STREAM_CAPTURE_MODE_GLOBAL);
    {
      CapturedGraph graph(*this, 0);
      runtime_.copier().copy_async(target_.data(), pinned.data(), kBytes, streams_[0]);
      graph.launch(100);
    }
  }

  void refused() {
    driver_.stream_begin_capture(native(0), CU_STREAM_CAPTURE_MODE_GLOBAL);
    CapturedGraph graph(*this, 0);
    bool is_refused = false;
    try {
      start(0).wait();
    } catch (const StreamCaptured&) {
      is_refused = true;
    }
    if (!is_refused) throw std::runtime_error("the copy was not refused");
    driver_.memset_d8_async(address_of_target(), static_cast<unsigned char>(1), kBytes, native(0));
    graph.launch(1);  // the capture continued
  }

  /// As a program may capture waits of its own. Whether the driver accepts that is another
  /// question.
  void behind_a_graph_with_a_gate() {
    PinnedWord word(driver_);
    driver_.stream_begin_capture(native(0), CU_STREAM_CAPTURE_MODE_GLOBAL);
    CapturedGraph graph(*this, 0);
    const CUresult waits = driver_.try_stream_wait_value32(native(0), word.address(), cuuint32_t{1},
                                                           unsigned{CU_STREAM_WAIT_VALUE_GEQ});
    if (waits != CUDA_SUCCESS) {
      skipped_ = fmt::format("the driver captures no waits: {}", driver_.describe(waits));
      return;
    }
    const std::jthread opener([&] {  // if launches block, this one blocks until then
      std::this_thread::sleep_for(20ms);
      word.open();
    });
    graph.launch(1);
    const Transfer behind = start(0);
    start(1).wait();
    behind.wait();
  }

  /// A word that a stream can wait for.
  class PinnedWord {
   public:
    explicit PinnedWord(const Driver& driver) : driver_(driver) {
      void* data = nullptr;
      driver_.mem_host_alloc(&data, sizeof(std::uint32_t), unsigned{CU_MEMHOSTALLOC_DEVICEMAP});
      word_ = new (data) std::atomic<std::uint32_t>(0);
    }
    ~PinnedWord() { driver_.try_mem_free_host(word_); }
    PinnedWord(const PinnedWord&) = delete;
    PinnedWord& operator=(const PinnedWord&) = delete;

    [[nodiscard]] CUdeviceptr address() const { return reinterpret_cast<CUdeviceptr>(word_); }
    void open() { *word_ = 1; }

   private:
    const Driver& driver_;
    std::atomic<std::uint32_t>* word_ = nullptr;
  };

  /// Ends the capture of a stream, whatever happens, so that later cases find the stream usable.
  class CapturedGraph {
   public:
    CapturedGraph(const Gates& gates, std::size_t stream)
        : driver_(gates.driver_), stream_(gates.native(stream)) {}
    ~CapturedGraph() {
      end();
      driver_.try_stream_synchronize(stream_);
      if (exec_ != nullptr) driver_.try_graph_exec_destroy(exec_);
      if (graph_ != nullptr) driver_.try_graph_destroy(graph_);
    }
    CapturedGraph(const CapturedGraph&) = delete;
    CapturedGraph& operator=(const CapturedGraph&) = delete;

    void launch(int times) {
      end();
      driver_.graph_instantiate(&exec_, graph_, 0ULL);
      for (int launch = 0; launch < times; ++launch) driver_.graph_launch(exec_, stream_);
    }

   private:
    void end() {
      if (!std::exchange(has_ended_, true)) driver_.try_stream_end_capture(stream_, &graph_);
    }

    const Driver& driver_;
    const CUstream stream_;
    bool has_ended_ = false;
    CUgraph graph_ = nullptr;
    CUgraphExec exec_ = nullptr;
  };

  Transfer start(std::size_t stream) {
    auto* const to = static_cast<char*>(target_.data()) + stream * kBytes;
    return runtime_.copier().start(to, host_.data(), kBytes, streams_[stream]);
  }
  [[nodiscard]] CUdeviceptr address_of_target() const {
    return reinterpret_cast<CUdeviceptr>(target_.data());
  }
  [[nodiscard]] CUstream native(std::size_t stream) const {
    return streams_[stream].ref().native();
  }

  const Driver& driver_;
  const Machine& machine_;
  const Kernels kernels_;
  const std::string setting_;
  const std::vector<char> host_;
  Runtime runtime_;
  DeviceAllocator& memory_;
  std::vector<Stream> streams_;
  Allocation target_;
  std::string skipped_;  ///< the reason why the current case is not applicable
};

}  // namespace

int main(int argc, char** argv) {
  const std::string setting = argc > 1 ? argv[1] : "as the environment says";
  const std::size_t first = first_case(argc, argv);
  return run_on_machine([&](const Machine& machine) { Gates(machine, setting).measure(first); });
}
