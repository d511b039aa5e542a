// SPDX-License-Identifier: Apache-2.0
// Arbitrary bytes give either a trace or an error with the reason: inputs of every format, damaged
// at random in many ways. The seed is fixed, so failures are reproducible.
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include "berth/error.hpp"
#include "berth/trace.hpp"

#include "support/byte_mutator.hpp"
#include "trace/compress.hpp"
#include "trace/snapshot_samples.hpp"
#include "trace/trace_text.hpp"

namespace trace_mutation_test {

using namespace berth;
using namespace berth::test;

namespace {

constexpr std::string_view kRows =
    "# program: a\r\nop,id,bytes,stream,device,t_us\ninit_alloc,1,700,0,0,0\nalloc,2,1000,1,0,11\n"
    "free_requested,2,1000,1,0,13\nfree_completed,2,1000,1,0,13\nfree,1,700,0,0,"
    "18446744073709551615\n"
    "oom,-1,1099511627776,2,0,17\nsnapshot,-1,0,0,0,18\nsegment_free,3,20971520,2,0,20\n";

/// Bytes that mean something to one of the readers.
constexpr std::string_view kTokens[] = {
    "\x80\x04",
    "\x93",
    "R",
    "b",
    "(",
    "e",
    "u",
    "a",
    "s",
    "l",
    "t",
    "d",
    "]",
    "}",
    ")",
    ".",
    "\x94",
    "h\x01",
    "q\x05",
    "r\xff\xff\xff\xff",
    "X\xff\xff\xff\x7f",
    "\x8d\xff\xff\xff\xff\xff\xff\xff\xff",
    "\x8b\xff\xff\xff\xff",
    "\x8a\x09",
    "p1\n",
    "g9\n",
    "I01\n",
    "L1L\n",
    "{",
    "[",
    ":",
    ",",
    "\"",
    "null",
    "-1",
    "1e9",
    "18446744073709551616",
    "-9223372036854775809",
    "\n",
    "\r\n",
    "#",
    "free",
    "alloc",
    "\x1f\x8b",
    "\\u12",
    "device_traces",
    "segments",
    "blocks",
};

struct Outcomes {
  std::size_t accepted = 0;
  std::size_t refused = 0;
};

/// Anything but a trace or an InvalidArgument of one line fails.
void parse(const std::string& input, Outcomes& outcomes) {
  try {
    static_cast<void>(parse_trace("x", input));
    ++outcomes.accepted;
  } catch (const InvalidArgument& error) {
    const std::string_view message = error.what();
    CHECK(message.find('\n') == std::string_view::npos);
    CHECK(message.size() < 1000);
    ++outcomes.refused;
  }
}

}  // namespace

TEST_CASE("damaged input of every format gives a trace or an error of one line") {
  std::vector<std::string> seeds(kSnapshotPickles.begin(), kSnapshotPickles.end());
  seeds.emplace_back(kSnapshotJson);
  seeds.emplace_back(kRows);
  seeds.push_back(gzip(kRows));
  ByteMutator mutator(20, kTokens);
  for (std::size_t seed = 0; seed < seeds.size(); ++seed) {
    CAPTURE(seed);
    Outcomes outcomes;
    for (int i = 0; i < 1500; ++i) parse(mutator.mutate(seeds[seed]), outcomes);
    CHECK(outcomes.refused > 0);
    // A checksum lets no damage pass, but for damage that adds or changes nothing.
    if (seeds[seed].front() != '\x1f') CHECK(outcomes.accepted > 0);
  }
}

TEST_CASE("random opcodes are refused or read within the limits") {
  ByteMutator mutator(21, kTokens);
  Outcomes outcomes;
  for (int i = 0; i < 20'000; ++i) {
    std::string pickle = "\x80\x04";
    for (std::size_t size = mutator.below(40); size > 0; --size)
      pickle += kTokens[mutator.below(28)];
    parse(pickle, outcomes);
  }
  CHECK(outcomes.refused == 20'000);
}

}  // namespace trace_mutation_test
