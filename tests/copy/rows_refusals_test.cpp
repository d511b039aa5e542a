// SPDX-License-Identifier: Apache-2.0
// Rows that start_rows() refuses, and the state after the driver refuses a part.
#include <cstddef>
#include <cstdint>
#include <string>

#include <doctest/doctest.h>

#include "berth/error.hpp"

#include "copy/rows_fixture.hpp"
#include "support/errors.hpp"

namespace rows_refusals_test {

using namespace berth;
using namespace berth::test;

namespace {

constexpr std::size_t kPiece = 64_KiB;

CopierOptions small() {
  return {
      .staging_slot_bytes = kPiece, .staging_slots = 4, .workers = 2, .direct_piece_bytes = kPiece};
}

sim::Config machine(const std::string& faults = {}) {
  sim::Config config;
  config.devices = 3;
  config.faults = sim::FaultPlan::parse(faults);
  return config;
}

}  // namespace

TEST_CASE("null or wrapping rows and rows longer than their pitch are refused") {
  CopyTest test(machine(), small());
  const Stream stream = test.stream();
  for (const Kind kind : {Kind::device, Kind::pinned, Kind::pageable}) {
    CAPTURE(name_of(kind));
    Buffer buffer(test, kind, 10'000);
    Buffer other(test, Kind::device, 10'000);
    const Bytes content = pattern(10'000, 1);
    buffer.write(content);
    other.write(content);
    const auto refused = [&](PitchedTarget target, PitchedSource source, std::size_t row_bytes,
                             std::size_t rows) {
      return message_of<InvalidArgument>(
          [&] { test.copier.start_rows(target, source, row_bytes, rows, stream); });
    };
    unsigned char* const data = buffer.data();
    unsigned char* const there = other.data();
    refused({nullptr, 100}, {data, 100}, 100, 10);
    refused({there, 100}, {nullptr, 100}, 100, 10);
    CHECK(contains(refused({there, 99}, {data, 100}, 100, 10), "pitch"));
    CHECK(contains(refused({there, 100}, {data, 99}, 100, 10), "pitch"));
    refused({there, 100}, {data, 0}, 100, 1);
    auto* const edge = reinterpret_cast<unsigned char*>(UINTPTR_MAX - 500);
    refused({edge, 100}, {data, 100}, 100, 10);
    refused({there, 100}, {edge, 100}, 100, 10);
    refused({there, 100}, {data, SIZE_MAX}, 100, 2);
    refused({there, SIZE_MAX / 2}, {data, 100}, 100, 3);
    refused({there, SIZE_MAX / 2 + 1}, {data, SIZE_MAX / 2 + 1}, 100, 3);
    refused({there, SIZE_MAX / 8}, {data, SIZE_MAX / 8}, SIZE_MAX / 8, 8);
    refused({there, 100}, {data, 100}, 100, SIZE_MAX);
    refused({there, SIZE_MAX}, {data, SIZE_MAX}, SIZE_MAX, 1);
    test.simulator.run_all();
    CHECK((buffer.read() == content));
    CHECK((other.read() == content));
  }
  CHECK(test.copier.counters().bytes_copied == 0);
}

TEST_CASE("overlapping rows and columns that share a byte are refused") {
  CopyTest test(machine(), small());
  const Stream stream = test.stream();
  for (const Kind kind : {Kind::device, Kind::pinned, Kind::pageable}) {
    CAPTURE(name_of(kind));
    Buffer buffer(test, kind, 10'000);
    const Bytes content = pattern(10'000, 1);
    buffer.write(content);
    unsigned char* const data = buffer.data();
    struct Side {
      std::size_t offset;
      std::size_t pitch;
    };
    struct Case {
      Side target;
      Side source;
      std::size_t row_bytes;
      std::size_t rows;
    };
    for (const Case& overlapping :
         {Case{{0, 100}, {0, 100}, 10, 10},  // the same
          Case{{9, 100}, {0, 100}, 10, 10},  // one byte
          Case{{0, 100}, {9, 100}, 10, 10},
          Case{{909, 100}, {0, 100}, 10, 10},  // the last row with the first
          Case{{0, 100}, {909, 100}, 10, 10},
          Case{{95, 100}, {0, 100}, 10, 10},  // the end of a row with the begin of the next one
          Case{{0, 100}, {95, 100}, 10, 10},
          Case{{50, 100}, {0, 101}, 10, 10},  // of different pitches, though they never meet
          Case{{0, 200}, {20, 100}, 10, 10}, Case{{0, 10}, {5, 10}, 10, 1},
          Case{{1000, 100}, {0, 200}, 10, 10}}) {
      CAPTURE(overlapping.target.offset);
      CAPTURE(overlapping.source.offset);
      message_of<InvalidArgument>([&] {
        test.copier.start_rows({data + overlapping.target.offset, overlapping.target.pitch},
                               {data + overlapping.source.offset, overlapping.source.pitch},
                               overlapping.row_bytes, overlapping.rows, stream);
      });
    }
    test.simulator.run_all();
    CHECK((buffer.read() == content));
    CHECK(test.copier.counters().bytes_copied == 0);
  }
}

TEST_CASE("rows that only adjoin are copied, of whatever pitches") {
  CopyTest test(machine(), small());
  const Stream stream = test.stream();
  Buffer buffer(test, Kind::device, 10'000);
  Bytes expected = pattern(10'000, 1);
  buffer.write(expected);
  const auto copy = [&](std::size_t to, std::size_t to_pitch, std::size_t from,
                        std::size_t from_pitch, Shape shape) {
    test.copier.start_rows({buffer.data() + to, to_pitch}, {buffer.data() + from, from_pitch},
                           shape.row_bytes, shape.rows, stream);
    stream.ref().sync();
    const Bytes source(expected.begin() + std::ptrdiff_t(from), expected.end());
    Bytes target(expected.begin() + std::ptrdiff_t(to), expected.end());
    target = with_rows(target, to_pitch, source, from_pitch, shape);
    std::ranges::copy(target, expected.begin() + std::ptrdiff_t(to));
    CHECK((buffer.read() == expected));
  };
  copy(910, 100, 0, 100, {10, 10});  // behind the last row
  copy(910, 101, 0, 100, {10, 10});
  copy(0, 100, 910, 150, {10, 10});
  copy(90, 100, 0, 100, {10, 10});  // up to the next row
  copy(10, 100, 0, 100, {10, 10});
  copy(0, 10, 10, 10, {10, 1});
  copy(95, 100, 0, 100, {10, 1});  // a lone row reaches into none
}

TEST_CASE("rows on a stream of a device that neither side belongs to are refused") {
  CopyTest test(machine(), small());
  const Stream zero = test.stream(0);
  const Stream two = test.stream(2);
  Buffer device(test, Kind::device, 1000);
  Buffer peer(test, Kind::peer, 1000);
  Buffer pinned(test, Kind::pinned, 1000);
  Buffer pageable(test, Kind::pageable, 1000);
  const auto refused = [&](Buffer& target, Buffer& source, const Stream& stream) {
    const std::string message = message_of<InvalidArgument>([&] {
      test.copier.start_rows({target.data(), 100}, {source.data(), 90}, 50, 10, stream);
    });
    CHECK(contains(message, stream.ref().device().to_string()));
  };
  refused(device, peer, two);
  refused(device, pinned, two);
  refused(pinned, device, two);
  refused(pageable, peer, zero);
  refused(peer, pageable, zero);
  CHECK(test.copier.counters().bytes_copied == 0);
}

TEST_CASE(
    "after the driver refuses a part of some rows nothing more is written, and a retry succeeds") {
  for (const std::string fault : {"cuMemcpy2DAsync@1=unknown", "cuMemcpy2DAsync@3=unknown"}) {
    for (const bool to_device : {true, false}) {
      CAPTURE(fault);
      CAPTURE(to_device);
      sim::Config config = machine(fault);
      config.progress = sim::Progress::manual;
      CopyTest test(config, small());
      const Stream stream = test.stream();
      RowsTest rows(test, to_device ? Kind::pinned : Kind::device, 1100,
                    to_device ? Kind::device : Kind::pinned, 1200, {1000, 500});
      const std::string message = message_of<DriverError>([&] { rows.start(stream); });
      CHECK(contains(message, "CUDA_ERROR_UNKNOWN"));
      const Bytes then = rows.target.read();
      rows.source.write(pattern(rows.source.bytes(), 77));
      test.simulator.run_all();
      CHECK((rows.target.read() == then));
      rows.source.write(rows.content);
      rows.start(stream).wait();
      rows.check_arrived();
    }
  }
}

}  // namespace rows_refusals_test
