// SPDX-License-Identifier: Apache-2.0
#include "endurance/program.hpp"

#include <barrier>
#include <memory>
#include <thread>
#include <vector>

#include "endurance/checkpoint.hpp"
#include "endurance/worker.hpp"

namespace berth::endurance {
namespace {

class Program {
 public:
  Program(const Mode& mode, std::uint64_t seed)
      : mode_(mode), machine_(mode, seed), shared_(mode_, machine_), random_(seed) {
    for (unsigned index = 0; index < mode.threads; ++index)
      workers_.push_back(std::make_unique<Worker>(shared_, index, seed));
  }

  Outcome run(std::uint64_t operations) {
    std::barrier all_stand(mode_.threads, [this]() noexcept { meet(); });
    const std::uint64_t operations_between = mode_.checked ? 4'000 : 20'000;
    std::vector<std::thread> threads;
    for (const auto& worker : workers_) {
      threads.emplace_back([&] {
        const std::uint64_t count = operations / mode_.threads;
        for (std::uint64_t done = 0; done < count; done += operations_between) {
          worker->run(std::min(operations_between, count - done));
          all_stand.arrive_and_wait();
        }
        worker->free_all();
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (const auto& worker : workers_) worker->free_parcels();
    check_all(machine_, live(), tally());
    return {tally(), machine_.memory->counters()};
  }

 private:
  /// While all threads wait for it.
  void meet() {
    check_all(machine_, live(), tally());
    if (random_.one_in(4)) machine_.replace(shared_.places[random_.below(shared_.places.size())]);
    // One by one they would hardly ever leave the device empty.
    shared_.emptying = !mode_.calm && random_.one_in(6);
    if (shared_.emptying) {
      for (const auto& worker : workers_) worker->empty();
    }
  }

  [[nodiscard]] std::vector<LiveBlock> live() const {
    std::vector<LiveBlock> live;
    for (const auto& worker : workers_)
      live.insert(live.end(), worker->live().begin(), worker->live().end());
    for (const Inbox& inbox : shared_.inboxes) {
      for (const Parcel& parcel : inbox.parcels()) live.push_back(parcel.block);
    }
    return live;
  }
  [[nodiscard]] Tally tally() const {
    Tally tally;
    for (const auto& worker : workers_) tally.add(worker->tally());
    return tally;
  }

  const Mode& mode_;
  Machine machine_;
  Shared shared_;
  test::Random random_;
  std::vector<std::unique_ptr<Worker>> workers_;
};

}  // namespace

Outcome run_program(const Mode& mode, std::uint64_t seed, std::uint64_t operations) {
  return Program(mode, seed).run(operations);
}

}  // namespace berth::endurance
