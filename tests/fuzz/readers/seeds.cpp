// SPDX-License-Identifier: Apache-2.0
#include "fuzz/readers/seeds.hpp"

#include <cstdint>

#include "sim/config.hpp"
#include "support/cubin.hpp"
#include "trace/compress.hpp"
#include "trace/snapshot_samples.hpp"

namespace berth::fuzz {
namespace {

/// Terminal commands, broken UTF-8, and more text than an error may quote.
const std::string kHostile = "a\x1b[31m\x01\xc2\x9b\xff" + std::string(5000, 'x');

constexpr std::string_view kRows =
    "# program: a\r\nop,id,bytes,stream,device,t_us\ninit_alloc,1,700,0,0,0\nalloc,2,1000,1,0,11\n"
    "free_requested,2,1000,1,0,13\nfree_completed,2,1000,1,0,13\nfree,1,700,0,0,"
    "18446744073709551615\noom,-1,1099511627776,2,0,17\nsnapshot,-1,0,0,0,18\n"
    "segment_free,3,20971520,2,0,20\n";

constexpr std::string_view kTraceWords[] = {"# ",
                                            ": ",
                                            "op,id,bytes,stream,device,t_us\n",
                                            "alloc,",
                                            "free,",
                                            "free_requested,",
                                            "free_completed,",
                                            "init_alloc,",
                                            "segment_alloc,",
                                            "segment_free,",
                                            "oom,",
                                            "snapshot,",
                                            "-1",
                                            "18446744073709551615",
                                            "9223372036854775808",
                                            "\r\n",
                                            "\n",
                                            ",",
                                            "\x1f\x8b",
                                            "\xef\xbb\xbf"};

constexpr std::string_view kSnapshotWords[] = {"\x80\x04",
                                               "\x80\x02",
                                               "\x93",
                                               "R",
                                               "(",
                                               "e",
                                               "u",
                                               "a",
                                               "s",
                                               "]",
                                               "}",
                                               ".",
                                               "\x94",
                                               "h\x01",
                                               "q\x05",
                                               "r\xff\xff\xff\xff",
                                               "X\xff\xff\xff\x7f",
                                               "\x8a\x09",
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
                                               "\\u12",
                                               "device_traces",
                                               "segments",
                                               "blocks",
                                               "action",
                                               "addr",
                                               "size",
                                               "stream",
                                               "time_us",
                                               "active_allocated",
                                               "free_completed"};

constexpr std::string_view kConfigurationWords[] = {"bytes_reserved_max",
                                                    "bytes_reserved_soft_max",
                                                    "release_unused_after",
                                                    "granule_bytes",
                                                    "virtual_memory",
                                                    "driver",
                                                    "pjrt",
                                                    "tpu:libtpu.so",
                                                    "?",
                                                    "&",
                                                    "'",
                                                    "cross_stream_reuse",
                                                    "max_split_size_mb",
                                                    "expandable_segments",
                                                    "garbage_collection_threshold",
                                                    "backend",
                                                    "=",
                                                    ":",
                                                    ",",
                                                    ", ",
                                                    "[",
                                                    "]",
                                                    "/",
                                                    ";",
                                                    "90%",
                                                    "10s",
                                                    "2MiB",
                                                    "on",
                                                    "off",
                                                    "True",
                                                    "0",
                                                    "-1",
                                                    "18446744073709551616",
                                                    "1e309",
                                                    "\n",
                                                    "\x1b"};

constexpr std::string_view kDeviceTextWords[] = {
    "cpu",  "cuda", "cuda:", ":0", ":1", "=",          ",", "*",  "*=cpu",
    "CUDA", "gpu",  "-1",    "+1", "01", "2147483648", " ", "\n", "\x1b"};

constexpr std::string_view kVisibleDevicesWords[] = {
    "0",
    "1",
    "3",
    "-1",
    "+0",
    " 2",
    "2x",
    ",",
    "GPU-",
    "GPU-aaaa1000",
    "MIG-",
    "MIG-cccc100",
    "MIG-GPU-aaaa1001-0000-0000-0000-000000000000/1/0",
    "/1/0",
    "99999999999999999999",
    "\x1b"};

constexpr std::string_view kSimulatorWords[] = {"devices",
                                                "memory",
                                                "progress",
                                                "seed",
                                                "jitter",
                                                "checks",
                                                "faults",
                                                "log",
                                                "threads",
                                                "name",
                                                "driver_version",
                                                "order",
                                                "granularity",
                                                "vmm",
                                                "peer",
                                                "mig",
                                                "=",
                                                ",",
                                                "/",
                                                ":",
                                                "+",
                                                "@",
                                                "manual",
                                                "random",
                                                "timed",
                                                "80GiB",
                                                "0:2",
                                                "cuMemAlloc",
                                                "=out_of_memory",
                                                "on",
                                                "off",
                                                "%",
                                                "18446744073709551616",
                                                "-1",
                                                "\n",
                                                "\x1b"};

}  // namespace

std::vector<std::string> trace_seeds() {
  std::vector<std::string> seeds{std::string(kRows), test::gzip(kRows), "", "#\n" + kHostile,
                                 kHostile + "\n"};
  // Ids that once shared a bucket of the table of blocks.
  std::string rows = "op,id,bytes,stream,device,t_us\n";
  for (std::int64_t i = 1; i < 50; ++i)
    rows += "alloc," + std::to_string(i * 15'486'181) + ",1,0,0,0\n";
  seeds.push_back(rows);
  return seeds;
}

std::vector<std::string> snapshot_seeds() {
  std::vector<std::string> seeds(test::kSnapshotPickles.begin(), test::kSnapshotPickles.end());
  seeds.emplace_back(test::kSnapshotJson);
  // One event many times.
  std::string shared(
      "\x80\x02}X\x0d\0\0\0device_traces]](}X\x06\0\0\0actionX\x08\0\0\0snapshotsq\0", 53);
  for (int i = 0; i < 20; ++i) shared += std::string("h\0", 2);
  seeds.push_back(shared + "eas.");
  seeds.push_back("{\"device_traces\": [[{\"action\": \"" + kHostile + "\"}]]}");
  return seeds;
}

std::vector<std::string> configuration_seeds() {
  return {"",
          "bytes_reserved_max=90%, release_unused_after=10s",
          "granule_bytes=9223372036854775808",
          "max_split_size_mb:512,garbage_collection_threshold:0.8,expandable_segments:True",
          "roundup_power2_divisions:[256:1,512:2,>:8]",
          "driver=" + kHostile,
          "pjrt=tpu:libtpu.so;x:/opt/x.so?cpu_device_count=4&ratio=0.5&mode='true'&fast=true",
          "pjrt=a:b?c=" + kHostile,
          "pjrt=none",
          kHostile};
}

std::vector<std::string> device_text_seeds() {
  return {"cpu",   "cuda", "cuda:1", "cuda:1=cpu,cuda:2=cuda:0", "*=cpu", "cuda:2147483648",
          kHostile};
}

std::vector<std::string> visible_devices_seeds() {
  return {"",
          "0,2,1",
          "3,1,x,0",
          "0,-1,1",
          "GPU-aaaa1000,GPU-aaaa1003",
          "MIG-GPU-aaaa1001-0000-0000-0000-000000000000/1/0",
          "MIG-cccc100-0000-0000-0000-000000000000",
          "0,GPU-" + kHostile,
          kHostile};
}

std::vector<std::string> device_code_seeds() {
  const std::string cubin = test::CubinImage().bytes;
  return {cubin, test::fat_binary_of(cubin), test::fat_binary_of(cubin, 100)};
}

std::span<const std::string_view> device_code_words() {
  static constexpr std::string_view words[] = {".nv.global", ".nv.global.init", ".nv.constant3",
                                               "\x7f"
                                               "ELF"};
  return words;
}

std::vector<std::string> simulator_seeds() {
  return {"",
          sim::Config().to_text(),
          "devices=2,progress=random,seed=7,memory=80GiB/40GiB,mig=0:2",
          "faults=cuMemAlloc=out_of_memory",
          "faults=" + kHostile,
          "devices=" + kHostile,
          kHostile};
}

std::span<const std::string_view> trace_words() {
  return kTraceWords;
}
std::span<const std::string_view> snapshot_words() {
  return kSnapshotWords;
}
std::span<const std::string_view> configuration_words() {
  return kConfigurationWords;
}
std::span<const std::string_view> device_text_words() {
  return kDeviceTextWords;
}
std::span<const std::string_view> visible_devices_words() {
  return kVisibleDevicesWords;
}
std::span<const std::string_view> simulator_words() {
  return kSimulatorWords;
}

}  // namespace berth::fuzz
