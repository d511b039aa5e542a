// SPDX-License-Identifier: Apache-2.0
// What a program is refused would be refused again, whatever the layout of memory, because a
// request tries all that its repeat would. Small programs, because a bug needs few steps.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "berth/bytes.hpp"

#include "model/random_program.hpp"
#include "support/foreign_stream.hpp"
#include "support/simulation.hpp"

namespace refused_again_model_test {

using namespace berth;
using namespace berth::test;

namespace {

constexpr std::size_t kGranuleBytes = 2_MiB;
const Device kDevice = Device::cuda(0);

/// A few blocks on three streams, some of them freed with work pending, and requests for a part of
/// what the limit leaves.
class SmallProgram {
 public:
  explicit SmallProgram(std::uint64_t seed)
      : random_(seed),
        simulation_(config(), options(random_)),
        memory_(simulation_.runtime->memory(kDevice)) {
    for (int stream = 0; stream < 3; ++stream)
      streams_.push_back(simulation_.runtime->create_stream(kDevice));
    for (const Stream& stream : streams_) written_.push_back(memory_.allocate(1, stream));
    for (std::size_t count = 4 + random_.below(6); count > 0; --count) allocate(3000);
    free_some();
    if (random_.one_in(2)) {
      for (int count = 0; count < 3; ++count) allocate(3000);
      free_some();
    }
  }
  ~SmallProgram() {
    live_.clear();
    written_.clear();
    simulation_.simulator.run_all();
  }
  SmallProgram(const SmallProgram&) = delete;
  SmallProgram& operator=(const SmallProgram&) = delete;

  /// The number of requests that were refused. Requires that none of them is served when repeated.
  int request_at_limit() {
    const std::size_t reserved = simulation_.simulator.device_bytes_used(0);
    const std::size_t limit = reserved + (random_.one_in(2) ? 0 : random_.below(3) * kGranuleBytes);
    memory_.set_limits({.bytes_reserved_max = MemoryAmount(limit)});
    const std::size_t left = limit - memory_.counters().bytes_allocated.current;
    int refused = 0;
    for (int count = 0; count < 2; ++count) {
      const std::size_t bytes = std::max<std::size_t>(left * (30 + random_.below(71)) / 100, 1);
      const StreamRef stream = some_stream();
      CAPTURE(bytes);
      if (memory_.try_allocate(bytes, stream).ok()) continue;
      ++refused;
      REQUIRE_FALSE(memory_.try_allocate(bytes, stream).ok());
    }
    memory_.validate();
    return refused;
  }

 private:
  struct LiveBlock {
    Allocation memory;
    std::size_t stream;
  };

  static sim::Config config() {
    sim::Config config;
    config.memory = {256_MiB};
    config.progress = sim::Progress::manual;
    return config;
  }

  static RuntimeOptions options(Random& random) {
    RuntimeOptions options;
    options.device_allocator.virtual_memory = !random.one_in(5);
    options.device_allocator.segment_bytes = kGranuleBytes;
    options.device_allocator.cross_stream_reuse = static_cast<CrossStreamReuse>(random.below(4));
    return options;
  }

  [[nodiscard]] StreamRef some_stream() { return streams_[random_.below(streams_.size())].ref(); }

  void allocate(std::size_t lines_max) {
    const std::size_t stream = random_.below(streams_.size());
    const std::size_t bytes =
        (1 + random_.below(random_.one_in(3) ? 4 * lines_max : lines_max)) * kBlockAlignment;
    live_.push_back({memory_.allocate(bytes, streams_[stream].ref()), stream});
  }

  void free_some() {
    for (std::size_t stream = 0; stream < streams_.size(); ++stream) {
      if (random_.one_in(2)) continue;
      simulation_.runtime->copier().fill_async(written_[stream].data(), 1, 1, streams_[stream]);
    }
    std::vector<LiveBlock> kept;
    for (LiveBlock& block : live_) {
      const std::size_t user = random_.below(5);
      if (random_.one_in(3)) {
        kept.push_back(std::move(block));
      } else if (user < streams_.size() && user != block.stream) {
        if (random_.one_in(2)) {
          block.memory.record_stream(streams_[user].ref());
        } else {
          block.memory.record_use(streams_[user].ref());
        }
      }
    }
    live_ = std::move(kept);
  }

  Random random_;
  Simulation simulation_;
  DeviceAllocator& memory_;
  std::vector<Stream> streams_;
  std::vector<Allocation> written_;  // by the pending work of each stream
  std::vector<LiveBlock> live_;
};

/// Requests of a device and of a private pool, from the first one on: under a limit, beyond a soft
/// limit, or on a small device; on streams of berth and on foreign ones, which may end without a
/// word.
class SmallDevice final : public RandomProgram {
 public:
  explicit SmallDevice(std::uint64_t seed)
      : RandomProgram(seed),
        simulation_(config(random_), options(random_)),
        memory_(simulation_.runtime->memory(kDevice)),
        pool_(memory_.create_pool({.name = "pool", .contiguous = random_.one_in(3)})),
        foreign_(random_.below(kStreams)) {
    for (std::size_t number = 0; number < kStreams; ++number) {
      Stream stream = simulation_.runtime->create_stream(kDevice);
      refs_.push_back(stream.ref());
      if (number < foreign_) {
        static_cast<void>(disown(std::move(stream)));
      } else {
        streams_.push_back(std::move(stream));
      }
    }
  }
  ~SmallDevice() {
    live_.clear();
    pool_.reset();
    simulation_.simulator.run_all();
    for (std::size_t number = 0; number < foreign_; ++number) {
      memory_.retire_stream(refs_[number]);
      destroy_disowned(refs_[number]);
    }
  }

  [[nodiscard]] std::size_t some_steps() { return 6 + random_.below(40); }
  void step() {
    static constexpr Operation<SmallDevice> kOperations[] = {
        {10, "request", &SmallDevice::request},
        {6, "free a block", &SmallDevice::free_block},
        {1, "wait", &SmallDevice::wait},
        {1, "use elsewhere", &SmallDevice::use_elsewhere},
        {1, "trim", &SmallDevice::trim},
        {1, "end a foreign stream", &SmallDevice::end_foreign_stream},
    };
    do_one_of(kOperations);
  }
  void finish() {
    memory_.validate();
    pool_->validate();
  }
  /// Requests; none of them was served when repeated.
  [[nodiscard]] int refused() const { return refused_; }

 private:
  static constexpr std::size_t kStreams = 4;

  static sim::Config config(Random& random) {
    sim::Config config;
    config.memory = {16_MiB + random.below(20) * kGranuleBytes};
    constexpr sim::Progress kProgress[] = {sim::Progress::eager, sim::Progress::manual,
                                           sim::Progress::random};
    config.progress = kProgress[random.below(3)];
    config.seed = random.below(1000);
    return config;
  }

  static RuntimeOptions options(Random& random) {
    RuntimeOptions options;
    DeviceAllocatorOptions& memory = options.device_allocator;
    memory.virtual_memory = random.one_in(2);
    memory.segment_bytes = random.one_in(3) ? kGranuleBytes * (1 + random.below(4)) : 20_MiB;
    memory.cross_stream_reuse = static_cast<CrossStreamReuse>(random.below(4));
    if (random.one_in(2))
      memory.limits.bytes_reserved_max = 12_MiB + random.below(12) * kGranuleBytes;
    if (random.one_in(3))
      memory.limits.bytes_reserved_soft_max = 4_MiB + random.below(8) * kGranuleBytes;
    return options;
  }

  [[nodiscard]] StreamRef some_stream() { return refs_[random_.below(refs_.size())]; }

  void request() {
    const bool is_of_pool = random_.one_in(4);
    const std::size_t bytes = 1 + random_.below(random_.one_in(2) ? 12_MiB : 3_MiB);
    const StreamRef stream = some_stream();
    const auto try_to = [&] {
      return is_of_pool ? pool_->try_allocate(bytes, stream) : memory_.try_allocate(bytes, stream);
    };
    Result<Allocation> result = try_to();
    if (result.ok()) {
      simulation_.runtime->copier().fill_async(result.value().data(), 1, 1, stream);
      live_.push_back(std::move(result).value());
      return;
    }
    ++refused_;
    CAPTURE(bytes);
    CAPTURE(result.error().what());
    REQUIRE_FALSE(try_to().ok());
  }

  void free_block() {
    if (live_.empty()) return;
    std::swap(live_[random_.below(live_.size())], live_.back());
    live_.pop_back();
  }
  void wait() { some_stream().sync(); }
  void trim() { memory_.trim(); }
  void use_elsewhere() {
    if (live_.empty()) return;
    Allocation& block = live_[random_.below(live_.size())];
    const StreamRef user = some_stream();
    if (random_.one_in(2)) {
      block.record_use(user);
    } else {
      block.record_stream(user);
    }
  }

  /// The first one, which some blocks may be ordered on.
  void end_foreign_stream() {
    if (foreign_ == 0 || refs_.size() == 1) return;
    refs_.front().sync();
    destroy_disowned(refs_.front());
    refs_.erase(refs_.begin());
    --foreign_;
  }

  Simulation simulation_;
  DeviceAllocator& memory_;
  std::optional<MemoryPool> pool_;
  std::size_t foreign_;          // the first of `refs_`
  std::vector<Stream> streams_;  // the others
  std::vector<StreamRef> refs_;
  std::vector<Allocation> live_;
  int refused_ = 0;
};

}  // namespace

TEST_CASE("a request refused at a limit is refused again on a retry") {
  for_each_seed([](std::uint64_t seed) {
    int refused = 0;
    for (std::uint64_t program = 0; program < operations(2000); ++program) {
      CAPTURE(seed * 1'000'000 + program);
      refused += SmallProgram(seed * 1'000'000 + program).request_at_limit();
    }
    CHECK(refused > 0);
  });
}

TEST_CASE("a request refused with two pools and foreign streams is refused again on a retry") {
  for_each_seed([](std::uint64_t seed) {
    int refused = 0;
    for (std::uint64_t program = 0; program < operations(2000); ++program) {
      CAPTURE(seed * 1'000'000 + program);
      SmallDevice device(seed * 1'000'000 + program);
      run_to_the_end(device, device.some_steps());
      refused += device.refused();
    }
    CHECK(refused > 0);
  });
}

}  // namespace refused_again_model_test
