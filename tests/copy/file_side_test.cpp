// SPDX-License-Identifier: Apache-2.0
// How the bytes of a file are read and written, and that a slow disk delays no other copy.
#include "copy/operand/file_side.hpp"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include <doctest/doctest.h>

#include "copy/file_copies.hpp"
#include "copy/file_fixture.hpp"
#include "copy/operand/open_file.hpp"
#include "copy/staged/staged_copies.hpp"
#include "support/tapped_device.hpp"

namespace file_side_test {

using namespace berth;
using namespace berth::test;

namespace {

constexpr std::size_t kBytes = 1_MiB;

struct AlignedDelete {
  void operator()(std::byte* data) const { ::operator delete (data, std::align_val_t{4096}); }
};
std::unique_ptr<std::byte, AlignedDelete> aligned(std::size_t bytes) {
  return std::unique_ptr<std::byte, AlignedDelete>(
      static_cast<std::byte*>(::operator new (bytes, std::align_val_t{4096})));
}

/// Bytes that this thread has had read from disks; nullopt where the system does not count them.
std::optional<std::uint64_t> bytes_from_disk() {
  std::ifstream counts("/proc/thread-self/io");
  std::string name;
  std::uint64_t value = 0;
  while (counts >> name >> value) {
    if (name == "read_bytes:") return value;
  }
  return std::nullopt;
}

/// A file on a disk, of which nothing is in the page cache; skipped where there is none.
struct ColdFile {
  ColdFile() {
    write_file(path, content);
    is_cold = evict(path) && can_open(path, FileCaching::direct);
    if (!is_cold) MESSAGE("skipped: there is no disk here that is read past the page cache");
  }
  /// Reads it as one piece through a FileSide.
  [[nodiscard]] Bytes read(FileCaching caching) const {
    const auto staging = aligned(kBytes);
    FileSide(FileRange{File::open_to_read(path, caching), 0, kBytes})
        .read(staging.get(), 0, kBytes);
    const auto* const data = reinterpret_cast<const unsigned char*>(staging.get());
    return Bytes(data, data + kBytes);
  }

  /// Reads it several times, each time after `prepare`, and returns how often the file came from
  /// the disk at the fewest. Where memory is scarce, pages of the program or of the file itself
  /// are read again beside it, which only adds.
  template <typename Prepare>
  [[nodiscard]] std::optional<std::uint64_t> fewest_readings(FileCaching caching,
                                                             Prepare prepare) const {
    std::optional<std::uint64_t> fewest;
    for (int attempt = 0; attempt < 8; ++attempt) {
      prepare();
      const std::optional<std::uint64_t> before = bytes_from_disk();
      CHECK((read(caching) == content));
      const std::optional<std::uint64_t> after = bytes_from_disk();
      if (!before || !after) return std::nullopt;
      const std::uint64_t readings = (*after - *before + kBytes / 4) / kBytes;
      fewest = std::min(fewest.value_or(readings), readings);
    }
    return fewest;
  }

  const TemporaryFolder folder;
  const std::string path = folder.path() / "weights";
  const Bytes content = pattern(kBytes, 1);
  bool is_cold = false;
};

/// Stands for a disk that does not answer.
class StuckEnd final : public HostSide {
 public:
  StuckEnd(std::atomic<int>& waiting, const std::atomic<bool>& answers)
      : waiting_(waiting), answers_(answers) {}
  void read(std::byte*, std::size_t, std::size_t) override {
    ++waiting_;
    while (!answers_) std::this_thread::yield();
  }
  void write(const std::byte*, std::size_t, std::size_t) override {}

 private:
  std::atomic<int>& waiting_;
  const std::atomic<bool>& answers_;
};

}  // namespace

TEST_CASE_FIXTURE(ColdFile,
                  "pages outside the page cache are read directly, and only those of the range") {
  if (!is_cold) return;
  for (const FileCaching caching : {FileCaching::automatic, FileCaching::direct}) {
    CAPTURE(int(caching));
    const auto readings = fewest_readings(caching, [&] { REQUIRE(evict(path)); });
    CHECK(cached_pages(path) == 0);
    CHECK(readings.value_or(1) == 1);
  }
  CHECK((read(FileCaching::cached) == content));
  CHECK(cached_pages(path) > 0);
}

TEST_CASE_FIXTURE(ColdFile, "pages in the page cache are read from the cache") {
  if (!is_cold) return;
  const auto fill_cache = [&] { static_cast<void>(read_file(path)); };
  CHECK(fewest_readings(FileCaching::automatic, fill_cache).value_or(0) == 0);
  CHECK(fewest_readings(FileCaching::direct, fill_cache).value_or(1) == 1);
}

TEST_CASE_FIXTURE(ColdFile, "data that was written but not yet flushed to disk is read") {
  if (!is_cold) return;
  const Bytes changed = pattern(kBytes, 2);
  File::open_to_write(path).write(bytes_at(changed.data(), kBytes), 0);
  CHECK((read(FileCaching::automatic) == changed));
  CHECK((read(FileCaching::direct) == changed));
}

TEST_CASE_FIXTURE(ColdFile,
                  "whole pages are written directly, and partial pages through the page cache") {
  if (!is_cold) return;
  constexpr std::size_t kBegin = 4096 - 100;
  constexpr std::size_t kEnd = kBytes - 4096 + 7;
  const FileRange range{File::open_to_write(path, FileCaching::direct), kBegin, kEnd - kBegin};
  const FileRow row(range);
  const auto staging = aligned(row.bytes());
  const Bytes written = pattern(row.bytes(), 3);
  std::ranges::copy(written, reinterpret_cast<unsigned char*>(staging.get()));
  FileSide(range).write(staging.get(), 0, row.bytes());
  CHECK(cached_pages(path) <= 2);
  Bytes expected = content;
  std::copy(written.begin() + kBegin, written.begin() + kEnd, expected.begin() + kBegin);
  CHECK((read_file(path) == expected));
}

TEST_CASE("a row is made of whole blocks around its range") {
  const TemporaryFolder folder;
  const std::string path = folder.path() / "weights";
  write_file(path, Bytes(20'000));
  const FileRow row(FileRange{File::open_to_read(path), 5000, 8000});
  CHECK(row.offset() == 4096);
  CHECK(row.bytes_before() == 904);
  CHECK(row.bytes() == 12'288);
  CHECK(row.in_range(0, 4096).begin == 904);
  CHECK(row.in_range(0, 4096).end == 4096);
  CHECK(row.in_range(8192, 4096).begin == 8192);
  CHECK(row.in_range(8192, 4096).end == 8904);
}

TEST_CASE("direct writes consist of whole granules of the file, of any granule size") {
  const TemporaryFolder folder;
  const std::string path = folder.path() / "weights";
  write_file(path, Bytes(400'000));
  const FileRow row(FileRange{File::open_to_read(path), 4096 + 100, 300'000});
  REQUIRE(row.offset() == 4096);
  const auto check = [&](FileRow::Stretch stretch, std::size_t granule, std::size_t begin,
                         std::size_t end) {
    CAPTURE(stretch.begin);
    CAPTURE(granule);
    const FileRow::Stretch whole = row.whole_granules(stretch, granule);
    CHECK(whole.begin == begin);
    CHECK(whole.end == end);
  };
  check({100, 8192}, 4096, 4096, 8192);
  check({100, 8191}, 4096, 8191, 8191);
  check({100, 4095}, 4096, 4095, 4095);
  // The row begins in the midst of the file's first granule.
  check({100, 200}, 65'536, 200, 200);
  check({100, 61'440}, 65'536, 61'440, 61'440);
  check({100, 65'536}, 65'536, 65'536, 65'536);
  check({100, 130'000}, 65'536, 61'440, 126'976);
}

TEST_CASE_FIXTURE(TappedDevice, "a disk that does not respond delays no memory copy") {
  PinnedAllocator pinned(registry, {});
  constexpr std::size_t kSlot = 64_KiB;
  const ContextScope scope(context);
  const Stream stuck_stream = stream();
  const Stream other = stream();
  CUdeviceptr device = 0;
  driver.mem_alloc(&device, 2 * kSlot);
  auto* const memory = reinterpret_cast<std::byte*>(device);
  std::atomic<int> waiting = 0;
  std::atomic<bool> answers = false;
  {
    StagedCopies copies(
        registry, pinned,
        {.staging_slot_bytes = kSlot, .staging_slots = 8, .workers = 1, .file_workers = 1});
    copies.start(stuck_stream,
                 {.direction = StagedRoute::Direction::to_device,
                  .host = std::make_unique<StuckEnd>(waiting, answers),
                  .device = std::make_unique<LinearDevice>(memory),
                  .bytes = kSlot,
                  .waits_for_disk = true},
                 -1);
    while (waiting == 0) std::this_thread::yield();
    Bytes source = pattern(kSlot, 1);
    const auto copy = copies.start(
        other,
        {.direction = StagedRoute::Direction::to_device,
         .host = std::make_unique<LinearHost>(reinterpret_cast<std::byte*>(source.data())),
         .device = std::make_unique<LinearDevice>(memory + kSlot),
         .bytes = kSlot},
        0);
    while (!copy->is_complete) std::this_thread::yield();
    CHECK((simulator.peek(device + kSlot, kSlot) == source));
    CHECK(copies.disk_work().copies_under_way() == 1);
    answers = true;
  }
  driver.mem_free(device);
}

}  // namespace file_side_test
