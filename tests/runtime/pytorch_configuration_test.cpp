// SPDX-License-Identifier: Apache-2.0
// PyTorch's configuration text: the effect of its keys here, and errors that PyTorch's parser
// accepts.
#include <algorithm>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "berth/configuration.hpp"

#include "runtime/configuration_samples.hpp"
#include "stats/source_root.hpp"
#include "support/errors.hpp"
#include "support/thinned.hpp"

namespace pytorch_configuration_test {

using namespace berth;
using namespace berth::test;

namespace {

struct KeyCase {
  const char* key;
  const char* effect;  ///< on the default options; "": none
  std::vector<std::string> accepted;
  std::vector<std::string> refused;
};

const std::vector<std::string> kBools = {"True", "False", "true", "false"};
const std::vector<std::string> kNoBools = {"", "TRUE", "1", "on", "True max_split_size_mb:64"};

/// Every key. The effect is that of the first value.
const std::vector<KeyCase>& key_cases() {
  static const std::vector<KeyCase> cases = {
      {"backend", "", {"native"}, {"", "Native", "cudaMallocAsync", "hipMallocAsync"}},
      {"expandable_segments", "virtual_memory=off", {"False", "True", "true", "false"}, kNoBools},
      {"per_process_memory_fraction",
       "bytes_reserved_max=50%",
       {"0.5", "0", "1", "1.0"},
       {"", "1.1", "-0.1", "-0", "nan", "inf", "50%", "half"}},
      {"garbage_collection_threshold",
       "bytes_reserved_soft_max=80%",
       {"0.8", "0.0001", "0.9999"},
       {"", "0", "0.0", "1", "1.0", "80", "-0.8", "nan", "1e400"}},
      {"max_split_size_mb",
       "",
       {"128", "20", "17592186044415"},
       {"", "19", "-5", "abc", "20.5", "20MB", "17592186044416", "99999999999999999999"}},
      {"max_non_split_rounding_mb", "", {"64", "20"}, {"", "19", "-1", "x"}},
      {"roundup_power2_divisions",
       "",
       {"4", "1", "[256:1,512:2,1024:4,>:8]", "[>:1]", "[ 256 : 0 , > : 8 ]", "[1:16]"},
       {"", "0", "3", "-4", "[]", "[256]", "[256:3]", "[100:1]", "[256:1", "256:1]", "[256:1,]",
        "[:1]", "[256:]", "[0:1]", "[[256:1]]"}},
      {"large_segment_size_mb", "", {"64", "11"}, {"", "10", "0", "-1", "big"}},
      {"expandable_segments_reserve", "", {"0.5", "40G", "1.125"}, {"", "0", "-1", "lots"}},
      {"expandable_segments_reserve_by_class",
       "",
       {"[kv:0.5,rest:40G]"},
       {"", "0.5", "[]", "[kv]", "[:1]", "[kv:none]"}},
      {"release_lock_on_cudamalloc", "", kBools, kNoBools},
      {"graph_capture_record_stream_reuse", "", kBools, kNoBools},
      {"throw_on_cudamalloc_oom", "", kBools, kNoBools},
      {"pinned_use_cuda_host_register",
       "pinned_prefault_threads=0",
       {"False", "True", "true", "false"},
       kNoBools},
      {"pinned_num_register_threads",
       "pinned_prefault_threads=8",
       {"8", "1", "128"},
       {"", "0", "3", "256", "-8"}},
      {"pinned_reserve_segment_size_mb", "", {"1024", "1"}, {"", "0", "-1"}},
      {"pinned_use_background_threads", "", kBools, kNoBools},
      {"pinned_max_round_threshold_mb", "", {"128", "0"}, {"", "-1", "1.5"}},
      {"pinned_max_cached_size_mb", "", {"128", "0"}, {"", "-1", "x"}},
      {"pinned_free_catch_all", "", kBools, kNoBools},
  };
  return cases;
}

std::string entry(const std::string& key, const std::string& value) {
  return key + ":" + value;
}

std::string refusal(const std::string& text) {
  return message_of<InvalidArgument>([&] { return configure_like_pytorch({}, text); });
}

std::string effect(const std::string& text, const RuntimeOptions& before = {}) {
  return difference(before, configure_like_pytorch(before, text).options);
}

}  // namespace

TEST_CASE("each key has its effect, or a remark that explains why not") {
  for (const KeyCase& c : key_cases()) {
    CAPTURE(c.key);
    CHECK(effect(entry(c.key, c.accepted.front())) == c.effect);
    for (const std::string& value : c.accepted) {
      CAPTURE(value);
      const auto remarks = configure_like_pytorch({}, entry(c.key, value)).remarks;
      const bool none = std::string(c.key) == "backend" || std::string(c.key).starts_with("exp") ||
                        std::string(c.key) == "per_process_memory_fraction" ||
                        std::string(c.key) == "pinned_use_cuda_host_register" ||
                        std::string(c.key) == "pinned_num_register_threads";
      if (none && std::string(c.key).find("reserve") == std::string::npos) {
        CHECK(remarks.empty());
        continue;
      }
      REQUIRE(remarks.size() == 1);
      CHECK(remarks[0].starts_with(std::string(c.key) + ": "));
      CHECK(remarks[0].size() > std::string(c.key).size() + 10);
      CHECK_FALSE(contains(remarks[0], "\n"));
    }
  }
}

TEST_CASE("each value out of range is refused, with what is accepted") {
  for (const KeyCase& c : key_cases()) {
    for (const std::string& value : c.refused) {
      CAPTURE(c.key);
      CAPTURE(value);
      const std::string message = refusal(entry(c.key, value));
      CHECK(message.starts_with("PyTorch's configuration: " + entry(c.key, "\"")));
      CHECK(contains(message, " (accepted: "));
    }
  }
  CHECK(contains(refusal("backend:cudaMallocAsync"), "accepted: native"));
}

TEST_CASE("the threshold is a fraction of the limit, whatever sets the limit") {
  CHECK(effect("garbage_collection_threshold:0.5,per_process_memory_fraction:0.5") ==
        "bytes_reserved_max=50%,bytes_reserved_soft_max=25%");
  CHECK(effect("per_process_memory_fraction:0.5, garbage_collection_threshold:0.5") ==
        "bytes_reserved_max=50%,bytes_reserved_soft_max=25%");
  CHECK(effect("garbage_collection_threshold:0.5", configure({}, "bytes_reserved_max=40%")) ==
        "bytes_reserved_soft_max=20%");
  CHECK(effect("garbage_collection_threshold:0.75", configure({}, "bytes_reserved_max=4GiB")) ==
        "bytes_reserved_soft_max=3GiB");
  CHECK(effect("garbage_collection_threshold:0.5") == "bytes_reserved_soft_max=50%");
}

TEST_CASE("a threshold without a limit has an effect, unlike PyTorch's, and a remark says so") {
  const auto remarks = configure_like_pytorch({}, "garbage_collection_threshold:0.5").remarks;
  REQUIRE(remarks.size() == 1);
  CHECK(contains(remarks[0], "per_process_memory_fraction"));
  CHECK(
      configure_like_pytorch({}, "garbage_collection_threshold:0.5,per_process_memory_fraction:0.9")
          .remarks.empty());
}

TEST_CASE("sizes for splitting are checked against large_segment_size_mb, in any order") {
  CHECK(effect("max_split_size_mb:12,large_segment_size_mb:12").empty());
  CHECK(contains(refusal("max_split_size_mb:63,large_segment_size_mb:64"),
                 "max_split_size_mb:\"63\" (accepted: "));
  CHECK(contains(refusal("large_segment_size_mb:64,max_non_split_rounding_mb:32"),
                 "max_non_split_rounding_mb:\"32\" (accepted: "));
}

TEST_CASE("omitted keys keep the values of the code") {
  const RuntimeOptions code = configure({}, "virtual_memory=off,bytes_reserved_max=1GiB");
  CHECK(effect("", code).empty());
  CHECK(effect("max_split_size_mb:128", code).empty());
  CHECK(effect("expandable_segments:True", code) == "virtual_memory=on");
}

TEST_CASE("typical texts are read") {
  CHECK(effect("expandable_segments:True,max_split_size_mb:128,garbage_collection_threshold:0.8") ==
        "bytes_reserved_soft_max=80%");
  CHECK(effect(" backend : native , roundup_power2_divisions : [256:1,512:2,1024:4,>:8] ,"
               "pinned_use_cuda_host_register:True,pinned_num_register_threads:8") ==
        "pinned_prefault_threads=8");
  CHECK(effect("pinned_use_cuda_host_register:False,pinned_num_register_threads:8") ==
        "pinned_prefault_threads=0");
}

TEST_CASE("malformed texts that PyTorch's parser accepts or misreads are refused") {
  CHECK(contains(refusal("max_split_size_mb:-5"), "max_split_size_mb:\"-5\""));
  CHECK(contains(refusal("max_split_size_mb=64"), "has no ':'"));
  CHECK(contains(refusal("expandable_segments:True max_split_size_mb:64"),
                 "expandable_segments:\"True max_split_size_mb:64\" (accepted: True or False)"));
  CHECK(contains(refusal("expand able_segments:True"), "perhaps expandable_segments"));
  CHECK(contains(refusal("expandable_segments:True,"), "entry 2 of 2 is empty"));
  CHECK(contains(refusal("expandable_segments:True,expandable_segments:False"), "given again"));
  CHECK(contains(refusal("per_process_memory_fraction:0,5"), "\"5\" has no ':'"));
  CHECK(contains(refusal("max_split_size:64"), "perhaps max_split_size_mb"));
}

TEST_CASE("all errors are reported at once, and nothing is changed") {
  RuntimeOptions options = configure({}, "streams_max=3");
  const auto before = values_of(options);
  const std::string message = message_of<InvalidArgument>([&] {
    options = configure_like_pytorch(options,
                                     "expandable_segments:False,colour:red,max_split_size_mb:5,"
                                     "per_process_memory_fraction:2,backend")
                  .options;
  });
  CHECK(values_of(options) == before);
  for (const char* part : {"unknown key \"colour\"", "max_split_size_mb:\"5\"",
                           "per_process_memory_fraction:\"2\"", "\"backend\" has no ':'"})
    CHECK_MESSAGE(contains(message, part), part);
}

TEST_CASE("any text is read or refused with one line of bounded length") {
  std::vector<std::string> seeds;
  for (const KeyCase& c : key_cases()) {
    for (const std::string& value : c.accepted) seeds.push_back(entry(c.key, value));
    for (const std::string& value : c.refused) seeds.push_back(entry(c.key, value));
  }
  seeds.push_back(seeds[1] + "," + seeds[5] + "," + seeds[9]);
  std::size_t read_count = 0;
  for_mutations(seeds, [&](const std::string& text) {
    if (read_or_refused([&] { static_cast<void>(configure_like_pytorch({}, text)); })) ++read_count;
  });
  CHECK(read_count > Thinned(5).part_of(1000));
  CHECK_FALSE(read_or_refused([] {
    static_cast<void>(
        configure_like_pytorch({}, "roundup_power2_divisions:[" + std::string(1 << 20, ',') + "]"));
  }));
}

TEST_CASE("docs/configuration.md explains the effect of every key, and of no other") {
  std::string keys = refusal("x:1");
  keys.erase(0, keys.find("accepted: ") + 10);
  keys.pop_back();
  const std::string page = content_of(source_root() / "docs" / "configuration.md");
  const std::string table = page.substr(page.find("## PyTorch"));
  const std::size_t rows = std::size_t(std::ranges::count(keys, ',')) + 1;
  CHECK(rows == key_cases().size());
  std::size_t found = 0;
  for (auto at = table.find("\n| `"); at != std::string::npos; at = table.find("\n| `", at + 1))
    ++found;
  CHECK(found == rows);
  for (const KeyCase& c : key_cases()) {
    CHECK_MESSAGE(contains(keys + ",", std::string(c.key) + ","), c.key);
    CHECK_MESSAGE(contains(table, "\n| `" + std::string(c.key) + "` | "), c.key);
    const bool has_effect = contains(table, "\n| `" + std::string(c.key) + "` | `");
    CHECK_MESSAGE(has_effect == (std::string(c.effect) != ""), c.key);
  }
}

}  // namespace pytorch_configuration_test
