// SPDX-License-Identifier: Apache-2.0
#include "fuzz/generator.hpp"

#include "fuzz/actions.hpp"
#include "fuzz/setup.hpp"
#include "fuzz/target.hpp"
#include "sim/random.hpp"

namespace berth::fuzz {
namespace {

constexpr std::size_t kRandomActionsMax = 60;

std::string pick(sim::Random& random, const std::vector<std::string>& from) {
  return from[random.below(from.size())];
}

/// A few words in a row: now and then a sentence.
std::string babble(sim::Random& random) {
  static const std::vector<std::string> known = words();
  std::string text;
  for (std::uint64_t left = random.below(8); left != 0; --left) text += pick(random, known);
  return text;
}

std::string random_config(sim::Random& random) {
  if (random.below(4) != 0) return "";
  if (random.below(3) == 0) return babble(random);
  const std::vector<std::string> settings = {"progress=timed",
                                             "progress=random",
                                             "progress=manual",
                                             "jitter=50",
                                             "devices=3",
                                             "mig=0:2",
                                             "mig=1:7/0:1",
                                             "memory=2MiB",
                                             "poison=off",
                                             "peer=off",
                                             "vmm=off",
                                             "order=reverse",
                                             "checks=off",
                                             "name=a b",
                                             "granularity=4KiB",
                                             "memory=1MiB/2MiB",
                                             "devices=2",
                                             "host_memory=8KiB",
                                             "driver_version=11040",
                                             "seed=9",
                                             "log=on"};
  std::string text = pick(random, settings);
  while (random.below(3) != 0) text += "," + pick(random, settings);
  return text;
}

std::string random_faults(sim::Random& random) {
  if (random.below(4) != 0) return "";
  if (random.below(4) == 0) return babble(random);
  const std::vector<std::string> whens = {"*@",
                                          "*%",
                                          "cuMemAlloc@",
                                          "cuMemCreate%",
                                          "cuEventRecord@",
                                          "cuGraphLaunch@",
                                          "cuStreamEndCapture@"};
  const std::vector<std::string> whats = {"=out_of_memory", "=unknown",  "=lost:0",
                                          "=lost:1",        "=memory:0", "=memory:512KiB",
                                          "=slow:1000000",  "+=unknown"};
  std::string text;
  for (std::uint64_t left = 1 + random.below(2); left != 0; --left)
    text += (text.empty() ? "" : ";") + pick(random, whens) + std::to_string(1 + random.below(30)) +
            pick(random, whats);
  return text;
}

std::string random_visible(sim::Random& random) {
  const std::vector<std::string> lists = {"", "1,0", "0", "1", "MIG-", "GPU-", "0,0", "-1", "+1"};
  return random.below(16) == 0 ? pick(random, lists) : "";
}

/// Decides one action: ordinary, any but not hostile, or anything.
std::string random_decisions(sim::Random& random) {
  std::string bytes;
  bytes += static_cast<char>(random.below(16) == 0 ? random.below(256) : 0);  // the thread
  const bool hostile = random.below(4) == 0;
  while (bytes.size() < kRecordBytes - 2) {
    const std::uint64_t bound = random.below(2) == 0              ? 1
                                : hostile && random.below(3) == 0 ? 256
                                                                  : 0x78;
    bytes += static_cast<char>(random.below(bound));
  }
  return bytes;
}

/// Half of the time what programs do all the time; NVML, half of all functions, seldom.
std::size_t random_action(sim::Random& random) {
  static const std::vector<std::string> frequent = {"cuMemsetD8Async",
                                                    "cuMemcpyAsync",
                                                    "cuMemcpyPeerAsync",
                                                    "cuEventRecord",
                                                    "cuStreamWaitEvent",
                                                    "cuLaunchHostFunc",
                                                    "cuStreamBeginCapture",
                                                    "cuStreamEndCapture",
                                                    "cuGraphInstantiateWithFlags",
                                                    "cuGraphLaunch",
                                                    "cuGraphAddEmptyNode",
                                                    "cuGraphCreate",
                                                    "cuMemAlloc",
                                                    "cuMemHostAlloc",
                                                    "cuMemHostRegister",
                                                    "cuMemAddressReserve",
                                                    "cuMemCreate",
                                                    "cuMemMap",
                                                    "cuMemSetAccess",
                                                    "cuMemUnmap",
                                                    "cuStreamCreateWithPriority",
                                                    "cuEventCreate",
                                                    "cuEventElapsedTime",
                                                    "cuStreamGetCaptureInfo",
                                                    "launch",
                                                    "run_next",
                                                    "cuDevicePrimaryCtxRetain",
                                                    "cuCtxCreate",
                                                    "cuMemAllocAsync",
                                                    "cuMemFreeAsync",
                                                    "cuMemAllocFromPoolAsync",
                                                    "cuMemPoolCreate",
                                                    "cuStreamWaitValue32",
                                                    "cuStreamWriteValue32",
                                                    "cuMemcpy",
                                                    "cuMemcpyBatchAsync",
                                                    "cuMemcpy2DAsync",
                                                    "cuMemsetD2D32Async"};
  if (random.below(2) == 0) return find_action(pick(random, frequent));
  for (;;) {
    const std::size_t action = random.below(actions().size());
    if (!actions()[action].name.starts_with("nvml") || random.below(8) == 0) return action;
  }
}

}  // namespace

Writer::Writer(unsigned switches, std::string_view config, std::string_view faults,
               std::string_view visible) {
  bytes_ += static_cast<char>(switches);
  for (const std::string_view text : {config, faults, visible}) (bytes_ += text) += '\n';
}

Writer& Writer::act(std::string_view action, std::initializer_list<std::uint8_t> parameters) {
  std::string decisions(1, '\0');  // on the first thread
  for (const std::uint8_t parameter : parameters) decisions += static_cast<char>(parameter);
  return act(find_action(action), decisions);
}

Writer& Writer::act(std::size_t action, std::string_view decisions) {
  bytes_ += static_cast<char>(action & 0xff);
  bytes_ += static_cast<char>(action >> 8);
  bytes_ += decisions;
  bytes_.append(kRecordBytes - 2 - decisions.size(), '\0');
  return *this;
}

std::string random_input(std::uint64_t number) {
  sim::Random random(number);
  const auto switches = static_cast<unsigned>(random.below(256));
  const std::string config = random_config(random);
  const std::string faults = random_faults(random);
  Writer writer(switches, config, faults, random_visible(random));
  if (random.below(32) != 0) furnish(writer);
  if (random.below(4) == 0) writer.act("nvmlInit_v2").act("nvmlDeviceGetHandleByIndex_v2");
  for (std::uint64_t left = random.below(kRandomActionsMax); left != 0; --left) {
    const std::size_t action = random_action(random);
    writer.act(action, random_decisions(random));
  }
  return writer.bytes();
}

std::vector<std::string> words() {
  std::vector<std::string> all = {"=",
                                  ",",
                                  ";",
                                  "@",
                                  "+",
                                  "%",
                                  ":",
                                  "/",
                                  " ",
                                  "0",
                                  "1",
                                  "2",
                                  "64",
                                  "18446744073709551615",
                                  "-1",
                                  "0.5",
                                  "nan",
                                  "1e99",
                                  "eager",
                                  "manual",
                                  "random",
                                  "timed",
                                  "on",
                                  "off",
                                  "pci",
                                  "reverse",
                                  "KiB",
                                  "MiB",
                                  "GiB",
                                  "TiB",
                                  "out_of_memory",
                                  "unknown",
                                  "slow:",
                                  "memory:",
                                  "lost:",
                                  "*",
                                  "cuMemAlloc",
                                  "cuInit"};
  const std::string text = sim::Config{}.to_text();
  for (std::size_t start = 0; start < text.size();) {
    all.push_back(text.substr(start, text.find('=', start) - start));
    const std::size_t comma = text.find(',', start);
    start = comma == std::string::npos ? text.size() : comma + 1;
  }
  return all;
}

}  // namespace berth::fuzz
