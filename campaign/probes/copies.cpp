// SPDX-License-Identifier: Apache-2.0
// campaign_copies: how fast berth copies between host and device, by kind of host memory, direction
// and size, beside the driver's own call; pageable memory by the number of threads; how long a
// small copy takes while a large one is under way; and files, beside read() or write() and a copy.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <functional>
#include <stdexcept>
#include <string>
#include <unistd.h>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "berth/bytes.hpp"
#include "berth/runtime.hpp"

#include "probes/machine.hpp"
#include "probes/rows.hpp"

namespace {

using namespace berth;
using namespace berth::campaign;

constexpr std::size_t kTurns = 15;
constexpr int kSmallCopies = 20;  ///< while one large copy is pending
constexpr std::size_t kBytesMost = 1_GiB;
constexpr std::size_t kFileMost = 256_MiB;

/// Less if the device has less memory, or the time is short: about a hundred copies have this size.
std::size_t largest_copy(const Machine& machine, const Time& all) {
  const auto seconds =
      static_cast<std::size_t>(std::chrono::ceil<std::chrono::seconds>(all.left()).count());
  return std::min(
      {kBytesMost, machine.bytes_free() / 4, std::max<std::size_t>(seconds, 1) * 64_MiB});
}

/// Host memory of a kind, with all pages resident.
class HostBuffer {
 public:
  HostBuffer(const Machine& machine, bool is_pinned, std::size_t bytes)
      : driver_(machine.driver()), is_pinned_(is_pinned) {
    if (is_pinned) {
      driver_.mem_host_alloc(&data_, bytes, 0U);
    } else {
      data_ = std::aligned_alloc(4_KiB, bytes);
    }
    std::fill_n(static_cast<unsigned char*>(data_), bytes, static_cast<unsigned char>(0x5a));
  }
  ~HostBuffer() {
    if (is_pinned_) {
      driver_.try_mem_free_host(data_);
    } else {
      std::free(data_);
    }
  }
  HostBuffer(const HostBuffer&) = delete;
  HostBuffer& operator=(const HostBuffer&) = delete;

  [[nodiscard]] void* data() const { return data_; }

 private:
  const Driver& driver_;
  const bool is_pinned_;
  void* data_ = nullptr;
};

/// The median rate of `copy`, which returns when everything is copied.
double rate_of(const Time& time, std::size_t bytes, const std::function<void()>& copy) {
  return static_cast<double>(bytes) /
         spread(durations_of(kTurns, time, copy))["ns_p50"].get<double>();
}

struct Direction {
  const char* name;
  bool is_in;
};
constexpr Direction kDirections[] = {{"to the device", true}, {"from the device", false}};

class Copies {
 public:
  Copies(const Machine& machine, Runtime& runtime, std::size_t bytes_max)
      : machine_(machine),
        runtime_(runtime),
        stream_(runtime.create_stream(Device::cuda(0))),
        device_(runtime.memory(Device::cuda(0)).allocate(bytes_max, stream_)) {}

  [[nodiscard]] double rate(const Time& time, Direction direction, void* host, std::size_t bytes) {
    return rate_of(time, bytes, [&] {
      void* const to = direction.is_in ? device_.data() : host;
      const void* const from = direction.is_in ? host : device_.data();
      runtime_.copier().copy(to, from, bytes, stream_);
    });
  }
  [[nodiscard]] double raw_rate(const Time& time, Direction direction, void* host,
                                std::size_t bytes) {
    return rate_of(time, bytes, [&] {
      void* const to = direction.is_in ? device_.data() : host;
      const void* const from = direction.is_in ? host : device_.data();
      machine_.driver().memcpy_async(reinterpret_cast<CUdeviceptr>(to),
                                     reinterpret_cast<CUdeviceptr>(from), bytes,
                                     stream_.ref().native());
      machine_.driver().stream_synchronize(stream_.ref().native());
    });
  }
  [[nodiscard]] void* data() const { return device_.data(); }
  [[nodiscard]] const Stream& stream() const { return stream_; }

 private:
  const Machine& machine_;
  Runtime& runtime_;
  const Stream stream_;
  const Allocation device_;
};

void measure_rates(const Machine& machine, const Time& all, std::size_t bytes_max) {
  Runtime runtime;
  Copies copies(machine, runtime, bytes_max);
  for (const bool is_pinned : {true, false}) {
    const HostBuffer host(machine, is_pinned, bytes_max);
    for (const Direction direction : kDirections) {
      for (std::size_t bytes = 4_KiB; bytes <= bytes_max; bytes *= 16) {
        const Place place = {{"size", size_text(bytes)},
                             {"host memory", is_pinned ? "pinned" : "pageable"},
                             {"direction", direction.name}};
        add_row_at(
            "copies", place,
            {{"gigabytes_per_second", copies.rate(all.share(0.009), direction, host.data(), bytes)},
             {"of_the_driver_alone",
              copies.raw_rate(all.share(0.009), direction, host.data(), bytes)}});
      }
    }
  }
}

void measure_threads(const Machine& machine, const Time& all, std::size_t bytes_max) {
  const std::size_t bytes = std::min(bytes_max, 256_MiB);
  const HostBuffer host(machine, false, bytes);
  for (const std::size_t threads : {1, 2, 4, 6, 8, 16}) {
    RuntimeOptions options;
    options.copier.workers = threads;
    Runtime runtime(options);
    Copies copies(machine, runtime, bytes);
    for (const Direction direction : kDirections) {
      add_row_at(
          "copy_threads", {{"threads", std::to_string(threads)}, {"direction", direction.name}},
          {{"gigabytes_per_second", copies.rate(all.share(0.02), direction, host.data(), bytes)}});
    }
  }
}

/// Copies of 64 KiB on one stream while a large one in the same direction is pending on another.
void measure_fairness(const Machine& machine, const Time& all, std::size_t bytes_max) {
  constexpr std::size_t kSmall = 64_KiB;
  Runtime runtime;
  Copies large(machine, runtime, bytes_max);
  Copies small(machine, runtime, kSmall);
  for (const bool is_pinned : {true, false}) {
    const HostBuffer host(machine, is_pinned, bytes_max);
    const HostBuffer small_host(machine, true, kSmall);
    std::vector<std::uint64_t> durations;
    std::size_t late = 0;  // began while the large one was still under way, and ended after it
    const auto turn = [&] {
      const Transfer whole =
          runtime.copier().start(large.data(), host.data(), bytes_max, large.stream());
      for (int copies = 0; copies == 0 || (copies < kSmallCopies && !whole.is_done()); ++copies) {
        durations.push_back(nanoseconds_of([&] {
          runtime.copier().copy(small.data(), small_host.data(), kSmall, small.stream());
        }));
        late += whole.is_done() ? 1 : 0;
      }
      whole.wait();
    };
    repeat(kTurns, all.share(0.04), turn, [&] {
      durations.clear();
      late = 0;
    });
    Json values = spread(std::move(durations));
    values["ended_after_the_large_one"] = late;
    add_row("copy_behind",
            fmt::format("64 KiB to the device behind {} of {} memory", size_text(bytes_max),
                        is_pinned ? "pinned" : "pageable"),
            values);
  }
}

/// A file that is removed with this object.
class TemporaryFile {
 public:
  TemporaryFile()
      : path_(
            (std::filesystem::temp_directory_path() / fmt::format("campaign-copies-{}", ::getpid()))
                .string()) {}
  ~TemporaryFile() { ::unlink(path_.c_str()); }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  [[nodiscard]] const std::string& path() const { return path_; }
  /// Writes what is only in the page cache to the disk, and drops it from there if `is_cold`.
  void settle(bool is_cold) const {
    const int file = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC);
    if (file < 0) return;
    ::fsync(file);
    if (is_cold) ::posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
    ::close(file);
  }

 private:
  const std::string path_;
};

class FileCopies {
 public:
  FileCopies(const Machine& machine, std::size_t bytes)
      : driver_(machine.driver()),
        bytes_(bytes),
        stream_(runtime_.create_stream(Device::cuda(0))),
        device_(runtime_.memory(Device::cuda(0)).allocate(bytes, stream_)),
        host_(bytes, 'x') {}

  void measure(const Time& all) {
    add(
        "to a file", all, false, [this] { write(); }, [this] { copy_and_write(); });
    add(
        "from a file, in the page cache", all, false, [this] { read(); },
        [this] { read_and_copy(); });
    add(
        "from a file, not in the page cache", all, true, [this] { read(); },
        [this] { read_and_copy(); });
  }

 private:
  void write() {
    runtime_.copier()
        .start({File::open_to_write(file_.path()), 0, bytes_}, device_.data(), stream_)
        .wait();
  }
  void read() {
    runtime_.copier()
        .start(device_.data(), {File::open_to_read(file_.path()), 0, bytes_}, stream_)
        .wait();
  }
  void copy_and_write() {
    driver_.memcpy_async(reinterpret_cast<CUdeviceptr>(host_.data()), address(), bytes_, native());
    driver_.stream_synchronize(native());
    std::ofstream file(file_.path(), std::ios::binary);
    if (!file.write(host_.data(), static_cast<std::streamsize>(bytes_)).flush())
      throw std::runtime_error("the file cannot be written");
  }
  void read_and_copy() {
    std::ifstream file(file_.path(), std::ios::binary);
    if (!file.read(host_.data(), static_cast<std::streamsize>(bytes_)))
      throw std::runtime_error("the file cannot be read");
    driver_.memcpy_async(address(), reinterpret_cast<CUdeviceptr>(host_.data()), bytes_, native());
    driver_.stream_synchronize(native());
  }

  /// Before each turn, the file is brought into the state of `is_cold`, which is not timed.
  void add(const char* row, const Time& all, bool is_cold, const std::function<void()>& berth,
           const std::function<void()>& plain) {
    const auto rate = [&](const std::function<void()>& copy) {
      std::vector<std::uint64_t> durations;
      const auto turn = [&] {
        file_.settle(is_cold);
        durations.push_back(nanoseconds_of(copy));
      };
      repeat(kTurns, all.share(0.03), turn, [&] { durations.clear(); });
      return static_cast<double>(bytes_) / spread(std::move(durations))["ns_p50"].get<double>();
    };
    add_row("files", fmt::format("{}, {}", row, size_text(bytes_)),
            {{"gigabytes_per_second", rate(berth)}, {"of_a_plain_loop", rate(plain)}});
  }
  [[nodiscard]] CUdeviceptr address() const {
    return reinterpret_cast<CUdeviceptr>(device_.data());
  }
  [[nodiscard]] CUstream native() const { return stream_.ref().native(); }

  const Driver& driver_;
  const std::size_t bytes_;
  Runtime runtime_;
  const Stream stream_;
  const Allocation device_;
  std::vector<char> host_;
  const TemporaryFile file_;
};

void measure(const Machine& machine) {
  const Time all;
  const std::size_t bytes_max = largest_copy(machine, all);
  attempt("copies", "all", [&] { measure_rates(machine, all, bytes_max); });
  attempt("copy_threads", "all", [&] { measure_threads(machine, all, bytes_max); });
  attempt("copy_behind", "all", [&] { measure_fairness(machine, all, bytes_max); });
  attempt("files", "all",
          [&] { FileCopies(machine, std::min(bytes_max, kFileMost)).measure(all); });
}

}  // namespace

int main() {
  return run_on_machine(measure);
}
