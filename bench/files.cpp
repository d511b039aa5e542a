// SPDX-License-Identifier: Apache-2.0
// How long does it take to load a file into device memory? Nanoseconds for 64 MiB, wall time, until
// the device has them, beside the two ways of a program without berth: read() into memory of its
// own and a mapping of the file, each followed by the driver's copy.
//   load_warm  the file is in the page cache
//   load_cold  nothing of it is; left out where it cannot be taken out of the cache, as in memory
// The file is in the folder that TMPDIR names. On the simulated driver the device's part is a
// memcpy.
#include <cuda.h>

#include <cstdlib>
#include <fcntl.h>
#include <memory>
#include <stdexcept>
#include <string>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

#include "berth/bytes.hpp"
#include "berth/file.hpp"

#include "support/benchmarks.hpp"

namespace berth::bench {
namespace {

constexpr std::size_t kBytes = 64_MiB;
constexpr std::size_t kReadBytes = 4_MiB;

/// A file that goes with the program.
class Weights {
 public:
  Weights() {
    const char* const folder = std::getenv("TMPDIR");
    path_ = std::string(folder != nullptr ? folder : "/tmp") + "/berth-bench-XXXXXX";
    descriptor_ = mkstemp(path_.data());
    if (descriptor_ < 0) throw std::runtime_error("cannot make " + path_);
    const std::vector<std::byte> content(kBytes, std::byte{7});
    File::open_to_write(path_).write(content, 0);
    fsync(descriptor_);
  }
  ~Weights() {
    close(descriptor_);
    unlink(path_.c_str());
  }
  Weights(const Weights&) = delete;
  Weights& operator=(const Weights&) = delete;

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] int descriptor() const { return descriptor_; }

  void warm() const {
    std::vector<std::byte> content(kBytes);
    File::open_to_read(path_, FileCaching::cached).read(content, 0);
  }
  /// Evicts the file from the page cache. False if that fails.
  bool cool() const {
    posix_fadvise(descriptor_, 0, 0, POSIX_FADV_DONTNEED);
    std::vector<unsigned char> is_there(kBytes / static_cast<std::size_t>(sysconf(_SC_PAGESIZE)));
    void* const data = mmap(nullptr, kBytes, PROT_READ, MAP_SHARED, descriptor_, 0);
    if (data == MAP_FAILED) return false;
    const bool known = mincore(data, kBytes, is_there.data()) == 0;
    munmap(data, kBytes);
    for (const unsigned char page : is_there) {
      if ((page & 1) != 0) return false;
    }
    return known;
  }

 private:
  std::string path_;
  int descriptor_ = -1;
};

const Weights& weights() {
  static const Weights file;
  return file;
}

struct Loads {
  explicit Loads(Session& of)
      : session(of),
        stream(of.stream()),
        device(of.runtime().memory(of.device()).allocate(kBytes, stream)) {}

  void send(std::size_t offset, const void* host, std::size_t bytes) {
    session.driver().memcpy_async(reinterpret_cast<CUdeviceptr>(device.data()) + offset,
                                  reinterpret_cast<CUdeviceptr>(host), bytes, stream.native());
    stream.sync();
  }
  void by_berth() {
    session.runtime()
        .copier()
        .start(device.data(), {File::open_to_read(weights().path()), 0, kBytes}, stream)
        .wait();
  }
  void by_read() {
    for (std::size_t offset = 0; offset < kBytes; offset += kReadBytes) {
      if (pread(weights().descriptor(), buffer.data(), kReadBytes, static_cast<off_t>(offset)) !=
          static_cast<ssize_t>(kReadBytes)) {
        throw std::runtime_error("cannot read " + weights().path());
      }
      send(offset, buffer.data(), kReadBytes);
    }
  }
  void by_mapping() {
    void* const data = mmap(nullptr, kBytes, PROT_READ, MAP_PRIVATE, weights().descriptor(), 0);
    if (data == MAP_FAILED) throw std::runtime_error("cannot map " + weights().path());
    send(0, data, kBytes);
    munmap(data, kBytes);
  }

  Session& session;
  StreamRef stream;
  Allocation device;
  std::vector<std::byte> buffer{kReadBytes};
};

enum class Cache { warm, cold };

void time_loads(benchmark::State& state, Session& session, Cache cache, void (Loads::*load)()) {
  Loads loads(session);
  if (cache == Cache::warm) weights().warm();
  (loads.*load)();  // pins what it needs
  for (auto _ : state) {
    state.PauseTiming();
    const bool is_ready = cache == Cache::warm || weights().cool();
    state.ResumeTiming();
    if (!is_ready) {
      state.SkipWithError("the file does not leave the page cache");
      return;
    }
    (loads.*load)();
  }
  state.SetItemsProcessed(state.iterations());
}

void add_loads(Session& session, const std::string& figure, Cache cache) {
  const auto add_way = [&](const char* peer, void (Loads::*load)()) {
    add(session, figure, peer, "", [&session, cache, load](benchmark::State& state) {
      time_loads(state, session, cache, load);
    })->UseRealTime();
  };
  add_way("berth", &Loads::by_berth);
  add_way("read", &Loads::by_read);
  add_way("mmap", &Loads::by_mapping);
}

}  // namespace

void add_benchmarks(Session& session) {
  add_loads(session, "load_warm", Cache::warm);
  if (weights().cool())
    add_loads(session, "load_cold", Cache::cold);
  else
    leave_out("load_cold", "the file cannot be taken out of the page cache");
}

}  // namespace berth::bench
