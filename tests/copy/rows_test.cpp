// SPDX-License-Identifier: Apache-2.0
// Copies of rows between all kinds of memory, in stream order: each row arrives, and nothing
// between the rows changes.
#include <cstddef>
#include <deque>
#include <future>
#include <memory>
#include <thread>
#include <utility>

#include <doctest/doctest.h>

#include "berth/error.hpp"

#include "copy/rows_fixture.hpp"
#include "support/captured_graph.hpp"
#include "support/errors.hpp"
#include "support/thinned.hpp"

namespace rows_test {

using namespace berth;
using namespace berth::test;

namespace {

constexpr std::size_t kPiece = 64_KiB;
constexpr std::size_t kSlots = 4;

CopierOptions small() {
  return {.staging_slot_bytes = kPiece,
          .staging_slots = kSlots,
          .workers = 2,
          .direct_piece_bytes = kPiece};
}

sim::Config two_devices(sim::Progress progress, bool peer = true) {
  sim::Config config;
  config.devices = 2;
  config.progress = progress;
  config.peer = peer;
  return config;
}

struct Gaps {
  std::size_t source;
  std::size_t target;
};

void check_rows(CopyTest& test, Kind from, Kind to, Shape shape, Gaps gaps, StreamRef stream) {
  CAPTURE(name_of(from));
  CAPTURE(name_of(to));
  CAPTURE(shape.row_bytes);
  CAPTURE(shape.rows);
  CAPTURE(gaps.source);
  CAPTURE(gaps.target);
  RowsTest rows(test, from, shape.row_bytes + gaps.source, to, shape.row_bytes + gaps.target,
                shape);
  const CopyCounters counted = test.copier.counters();
  const Transfer transfer = rows.start(stream);
  CHECK(transfer.bytes() == shape.bytes());
  transfer.wait();
  rows.check_arrived();
  CHECK(transfer.bytes_done() == shape.bytes());
  CHECK(test.copier.counters().bytes_copied == counted.bytes_copied + shape.bytes());
}

const Shape kShapes[] = {
    {1, 1},      {1, 1000},       {7, 3},          {100, 100},
    {60'000, 5},  // one to a slot or piece, which it does not fill
    {4095, 50},   // does not divide either
    {kPiece, 3}, {kPiece - 1, 3}, {kPiece + 1, 3}, {300'003, 2},  // more than all staging memory
    {64, 4097}};

constexpr Gaps kGaps[] = {{0, 0}, {0, 1}, {37, 0}, {37, 37}, {3, 500}};

/// Each pair of kinds that are on no device, on one, and on two.
template <class Check>
void for_each_pair(const Check& check) {
  for (const Kind from : kKinds) {
    for (const Kind to : kKinds) check(from, to);
  }
}

}  // namespace

TEST_CASE("rows of every kind of memory are copied to every other, whatever the pitches") {
  Thinned thinned(7);
  for (const auto progress : {sim::Progress::eager, sim::Progress::manual, sim::Progress::random}) {
    CAPTURE(int(progress));
    CopyTest test(two_devices(progress), small());
    const Stream streams[] = {test.stream(0), test.stream(1)};
    for_each_pair([&](Kind from, Kind to) {
      for (const Gaps gaps : kGaps) {
        if (thinned.skips()) continue;
        check_rows(test, from, to, {1013, 70}, gaps, streams[stream_device_of(from, to)]);
      }
    });
  }
}

TEST_CASE("rows of every size arrive, below and above what is copied at a time") {
  CopyTest test(two_devices(sim::Progress::random), small());
  const Stream streams[] = {test.stream(0), test.stream(1)};
  const std::pair<Kind, Kind> pairs[] = {
      {Kind::pageable, Kind::device}, {Kind::device, Kind::pageable},
      {Kind::pinned, Kind::device},   {Kind::device, Kind::pinned},
      {Kind::device, Kind::peer},     {Kind::device, Kind::foreign_device},
      {Kind::pageable, Kind::pinned}};
  Thinned thinned(5);
  for (const auto& [from, to] : pairs) {
    for (const Shape shape : kShapes) {
      if (to == Kind::peer && shape.rows > 1000) continue;  // each a copy of its own
      for (const Gaps gaps : {kGaps[0], kGaps[1], kGaps[4]}) {
        if (thinned.skips()) continue;
        check_rows(test, from, to, shape, gaps, streams[stream_device_of(from, to)]);
      }
    }
  }
}

TEST_CASE("devices without peer access copy rows to each other, on a stream of either") {
  for (const bool peer : {true, false}) {
    for (const bool vmm : {true, false}) {
      CAPTURE(peer);
      CAPTURE(vmm);
      sim::Config config = two_devices(sim::Progress::random, peer);
      config.vmm = vmm;
      CopyTest test(config, small());
      const Stream streams[] = {test.stream(0), test.stream(1)};
      for (const Stream& stream : streams) {
        for (const Shape shape : {Shape{100, 100}, Shape{kPiece + 1, 3}}) {
          check_rows(test, Kind::device, Kind::peer, shape, {3, 500}, stream);
          check_rows(test, Kind::peer, Kind::foreign_device, shape, {3, 500}, stream);
        }
      }
    }
  }
}

TEST_CASE("rows with a pitch beyond the driver's maximum arrive") {
  constexpr std::size_t kPitch = 2_GiB + 512;
  CopyTest test(two_devices(sim::Progress::manual), small());
  const Stream stream = test.stream();
  const Allocation far = test.runtime->memory(Device::cuda()).allocate(2 * kPitch + 100, stream);
  const Bytes content = pattern(300, 1);
  Buffer here(test, Kind::pinned, 300);
  here.write(content);
  test.copier.start_rows({far.data(), kPitch}, {here.data(), 100}, 100, 3, stream).wait();
  here.write(Bytes(300));
  test.copier.start_rows({here.data(), 100}, {far.data(), kPitch}, 100, 3, stream).wait();
  CHECK((here.read() == content));
}

TEST_CASE("rows that fit one piece are copied by one cuMemcpy2DAsync") {
  CopyTest test(two_devices(sim::Progress::eager), small());
  const Stream stream = test.stream();
  for (const auto& pair : {std::pair{Kind::pinned, Kind::device},
                           {Kind::device, Kind::registered},
                           {Kind::device, Kind::foreign_device}}) {
    const auto from = pair.first;
    const auto to = pair.second;
    CAPTURE(name_of(from));
    CAPTURE(name_of(to));
    RowsTest rows(test, from, 1030, to, 1100, {1024, 64});
    const std::uint64_t calls = driver_calls(*test.runtime, "cuMemcpy2DAsync");
    const std::uint64_t single = driver_calls(*test.runtime, "cuMemcpyAsync");
    rows.start(stream).wait();
    CHECK(driver_calls(*test.runtime, "cuMemcpy2DAsync") == calls + 1);
    CHECK(driver_calls(*test.runtime, "cuMemcpyAsync") == single);
    rows.check_arrived();
  }
  CHECK(test.copier.counters().copies_direct == 3);
}

TEST_CASE("progress of rows advances in steps of at most one piece") {
  for (const Shape shape : {Shape{1000, 200}, Shape{kPiece, 3}, Shape{2 * kPiece + 5, 2}}) {
    CAPTURE(shape.row_bytes);
    CopyTest test(two_devices(sim::Progress::manual), small());
    const Stream stream = test.stream();
    RowsTest rows(test, Kind::pinned, shape.row_bytes + 8, Kind::device, shape.row_bytes + 16,
                  shape);
    const Transfer transfer = rows.start(stream);
    CHECK(transfer.bytes_done() == 0);
    CHECK_FALSE(transfer.is_done());
    std::size_t last = 0;
    while (test.run_next(stream)) {
      const std::size_t now = transfer.bytes_done();
      CHECK(now >= last);
      CHECK(now - last <= kPiece);
      last = now;
    }
    CHECK(last == shape.bytes());
    CHECK(transfer.is_done());
    rows.check_arrived();
  }
}

TEST_CASE("a copy of no rows or of rows without bytes is a no-op for any pointers") {
  CopyTest test(two_devices(sim::Progress::eager), small());
  const Stream stream = test.stream();
  Buffer device(test, Kind::device, 100);
  const std::uint64_t calls = driver_calls(*test.runtime);
  const Transfer transfers[] = {
      test.copier.start_rows({nullptr, 0}, {nullptr, 0}, 0, 0, stream),
      test.copier.start_rows({nullptr, 10}, {nullptr, 10}, 10, 0, stream),
      test.copier.start_rows({device.data(), 10}, {device.data(), 10}, 0, 10, stream)};
  for (const Transfer& transfer : transfers) {
    CHECK(transfer.is_done());
    CHECK(transfer.bytes() == 0);
    transfer.wait();
  }
  CHECK(driver_calls(*test.runtime) == calls);
  CHECK(test.copier.counters().bytes_copied == 0);
}

TEST_CASE("columns of one matrix are copied to others of it") {
  constexpr Shape kShape{100, 300};
  constexpr std::size_t kPitch = 1000;
  for (const Kind kind : {Kind::device, Kind::pinned, Kind::pageable, Kind::peer}) {
    for (const auto& pair : {std::pair<std::size_t, std::size_t>{0, 100},
                             {100, 0},
                             {800, 100},
                             {100, 950},    // through the end of each row
                             {0, 301'000},  // below the others
                             {250'050, 150}}) {
      const auto from = pair.first;
      const auto to = pair.second;
      CAPTURE(name_of(kind));
      CAPTURE(from);
      CAPTURE(to);
      CopyTest test(two_devices(sim::Progress::random), small());
      const Stream stream = test.stream(device_of(kind));
      Buffer matrix(test, kind, 700'000);
      const Bytes content = pattern(700'000, 4);
      matrix.write(content);
      Bytes expected = content;
      for (std::size_t row = 0; row < kShape.rows; ++row) {
        std::copy_n(content.begin() + std::ptrdiff_t(from + row * kPitch), kShape.row_bytes,
                    expected.begin() + std::ptrdiff_t(to + row * kPitch));
      }
      test.copier
          .start_rows({matrix.data() + to, kPitch}, {matrix.data() + from, kPitch},
                      kShape.row_bytes, kShape.rows, stream)
          .wait();
      CHECK((matrix.read() == expected));
    }
  }
}

TEST_CASE("start_rows() returns at once, and copies in the order of the stream" * needs_gates()) {
  for (const bool to_device : {true, false}) {
    for (const Kind host : {Kind::pageable, Kind::pinned}) {
      for (const auto progress : {sim::Progress::manual, sim::Progress::random}) {
        CAPTURE(to_device);
        CAPTURE(name_of(host));
        CopyTest test(two_devices(progress), small());
        const Stream stream = test.stream();
        constexpr Shape kShape{3000, 40};  // half of the staging memory
        RowsTest rows(test, to_device ? host : Kind::device, 3100, to_device ? Kind::device : host,
                      3200, kShape);
        Buffer& device = to_device ? rows.target : rows.source;
        test.copier.fill_async(device.data(), 1, device.bytes(), stream);
        if (progress == sim::Progress::manual) test.log.submit(stream, "earlier");
        const Transfer transfer = rows.start(stream);
        if (progress == sim::Progress::manual) CHECK_FALSE(test.log.is_done("earlier"));
        Buffer seen(test, Kind::pageable, device.bytes());
        test.copier.start(seen.data(), device.data(), device.bytes(), stream);
        test.copier.fill_async(device.data(), 2, device.bytes(), stream);
        stream.ref().sync();
        transfer.wait();
        const Bytes filled(device.bytes(), 1);
        const Bytes passed =
            to_device ? with_rows(filled, 3200, rows.content, 3100, kShape) : filled;
        CHECK((seen.read() == passed));
        CHECK((device.read() == Bytes(device.bytes(), 2)));
        if (!to_device)
          CHECK((rows.target.read() == with_rows(rows.before, 3200, filled, 3100, kShape)));
      }
    }
  }
}

TEST_CASE("an event recorded after a copy of rows marks its completion") {
  for (const Kind host : {Kind::pageable, Kind::pinned}) {
    CAPTURE(name_of(host));
    CopyTest test(two_devices(sim::Progress::manual), small());
    const Stream stream = test.stream();
    RowsTest rows(test, Kind::device, 900, host, 850, {800, 300});
    rows.start(stream);
    const EventLease mark = test.runtime->record(stream);
    test.log.submit(stream, "after");
    mark->sync();
    rows.check_arrived();
    CHECK_FALSE(test.log.is_done("after"));
  }
}

TEST_CASE("host to host rows are copied after earlier work and are done when the call returns") {
  CopyTest test(two_devices(sim::Progress::manual), small());
  const Stream stream = test.stream();
  std::deque<RowsTest> all;  // to be made before the work is, which making some waits for
  for (const Kind from : {Kind::pageable, Kind::pinned, Kind::registered}) {
    for (const Kind to : {Kind::pageable, Kind::pinned, Kind::registered})
      all.emplace_back(test, from, 5000, to, 4999, Shape{4999, 70});
  }
  test.log.submit(stream, "earlier");
  for (RowsTest& rows : all) {
    CHECK(rows.start(stream).is_done());
    rows.check_arrived();
  }
  CHECK(test.log.is_done("earlier"));
  CHECK(test.copier.counters().copies_host == 9);
}

TEST_CASE("a pinned block can be freed while its rows are read, and its reuse waits") {
  CopyTest test(two_devices(sim::Progress::manual), small());
  const Stream stream = test.stream();
  Buffer there(test, Kind::device, 1'000'000);
  Allocation block = test.runtime->pinned_memory().allocate(2'000'000);
  const Bytes content = pattern(2'000'000, 3);
  std::copy(content.begin(), content.end(), static_cast<unsigned char*>(block.data()));
  test.copier.start_rows({there.data(), 1000}, {block.data(), 2000}, 1000, 1000, stream);
  void* const freed = block.data();
  block.reset();
  const Allocation next = test.runtime->pinned_memory().allocate(2'000'000);
  CHECK_FALSE(overlap(next.data(), next.bytes(), freed, 2'000'000));
  stream.ref().sync();
  CHECK((there.read() == with_rows(Bytes(1'000'000), 1000, content, 2000, {1000, 1000})));
}

TEST_CASE("a copy of rows supports wait(), on_done and keep_alive") {
  for (const Kind host : {Kind::pageable, Kind::pinned}) {
    CAPTURE(name_of(host));
    CopyTest test(two_devices(sim::Progress::eager), small());
    const Stream stream = test.stream();
    RowsTest rows(test, Kind::device, 900, host, 850, {800, 1000});
    auto owner = std::make_shared<int>(1);
    const std::weak_ptr<int> watched = owner;
    int calls = 0;
    std::promise<Bytes> seen;
    rows.start(stream, {.keep_alive = std::move(owner), .on_done = [&](std::exception_ptr failure) {
                          CHECK(failure == nullptr);
                          ++calls;
                          seen.set_value(rows.target.read());
                        }});
    CHECK((seen.get_future().get() == rows.expected()));
    test.runtime->completions().finish();
    CHECK(calls == 1);
    stream.ref().sync();
    while (!watched.expired()) std::this_thread::yield();
  }
}

TEST_CASE("a cancelled copy of rows reports it, and its stream continues" * needs_gates()) {
  CopyTest test(two_devices(sim::Progress::manual), small());
  const Stream stream = test.stream();
  constexpr Shape kShape{10'000, 1000};
  Buffer there(test, Kind::device, kShape.span(10'100));
  const Bytes before = pattern(there.bytes(), 2);
  there.write(before);
  Bytes here(kShape.bytes(), 1);
  Transfer transfer =
      test.copier.start_rows({there.data(), 10'100}, {here.data(), 10'000}, 10'000, 1000, stream);
  test.log.submit(stream, "after");
  transfer.cancel();
  message_of<Cancelled>([&] { transfer.wait(); });
  here = Bytes();
  stream.ref().sync();
  CHECK(test.log.is_done("after"));
  const Bytes after = there.read();
  std::size_t changed = 0;
  for (std::size_t at = 0; at < after.size(); ++at) {
    if (at % 10'100 >= 10'000 && after[at] != before[at]) ++changed;
  }
  CHECK(changed == 0);
  CHECK(there.guards_hold());
}

TEST_CASE("on a captured stream a copy of rows is one node, or refused if it involves the host") {
  for_each_pair([](Kind from, Kind to) {
    if (stream_device_of(from, to) != 0) return;
    CAPTURE(name_of(from));
    CAPTURE(name_of(to));
    CopyTest test(two_devices(sim::Progress::eager), small());
    const Stream stream = test.stream();
    constexpr Shape kShape{1000, 300};
    RowsTest rows(test, from, 1100, to, 1200, kShape);
    const bool by_host =
        from == Kind::pageable || to == Kind::pageable || (is_host(from) && is_host(to));
    begin_capture(stream);
    if (by_host) {
      message_of<StreamCaptured>([&] { rows.start(stream); });
      CHECK(test.copier.counters().bytes_copied == 0);
    } else {
      CHECK(rows.start(stream).is_done());
    }
    const CapturedGraph graph(stream);
    const std::size_t nodes = from == Kind::peer ? kShape.rows : 1;
    CHECK(graph.nodes() == (by_host ? 0 : nodes));
    rows.check_untouched();
    rows.content = pattern(rows.content.size(), 9);
    rows.source.write(rows.content);
    graph.launch();
    stream.ref().sync();
    if (by_host)
      rows.check_untouched();
    else
      rows.check_arrived();

    rows.target.write(rows.before);
    rows.start(stream).wait();  // the next copy works, in either case
    rows.check_arrived();
  });
}

TEST_CASE("rows on the legacy default stream arrive") {
  CopyTest test(two_devices(sim::Progress::manual), small());
  const StreamRef legacy = test.runtime->default_stream(Device::cuda(1));
  for (const Kind host : {Kind::pageable, Kind::pinned, Kind::registered}) {
    check_rows(test, host, Kind::peer, {1001, 200}, {3, 5}, legacy);
    check_rows(test, Kind::peer, host, {1001, 200}, {3, 5}, legacy);
  }
}

}  // namespace rows_test
