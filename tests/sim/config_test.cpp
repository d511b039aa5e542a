// SPDX-License-Identifier: Apache-2.0
#include "sim/config.hpp"

#include <string>

#include <doctest/doctest.h>

#include "berth/error.hpp"

#include "stats/source_root.hpp"

namespace config_test {

using berth::InvalidArgument;
using berth::operator""_GiB;
using berth::operator""_KiB;
using berth::sim::Config;
using berth::sim::DeviceOrder;
using berth::sim::LaunchBlocking;
using berth::sim::Progress;

namespace {

std::string refusal(const char* text) {
  try {
    Config::parse(text);
  } catch (const InvalidArgument& refused) {
    return refused.what();
  }
  return "";
}

bool mentions(const std::string& message, const char* part) {
  return message.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("empty text is the default configuration") {
  CHECK(Config::parse("") == Config{});
  CHECK(Config::parse("  ") == Config{});
}

TEST_CASE("every key is read") {
  const Config config = Config::parse(
      "devices=2, memory=80GiB/40GiB, progress=random, seed=18446744073709551615, name=Big GPU, "
      "granularity=64KiB, vmm=off, peer=off, driver_version=12020, host_memory=1GiB, "
      "order=reverse, poison=off, mig=1:3, numa=1/none, same_host_address=off, connections=32, "
      "queue=1000, driver_lock=on, launch_blocking=off, memory_operations=off, "
      "pageable_access=host_page_tables, checks=leak/race, on_finding=abort, call_sites=on, "
      "kernels=host, silence_ms=50, fabric=on, rdma=on");
  CHECK(config.fabric);
  CHECK(config.rdma);
  CHECK(config.kernels == berth::sim::Kernels::host);
  CHECK(config.devices == 2);
  CHECK(config.memory_of(0) == 80_GiB);
  CHECK(config.memory_of(1) == 40_GiB);
  CHECK(config.progress == Progress::random);
  CHECK(config.seed == UINT64_MAX);
  CHECK(config.name == "Big GPU");
  CHECK(config.granularity == 64_KiB);
  CHECK_FALSE(config.vmm);
  CHECK_FALSE(config.peer);
  CHECK(config.driver_version == 12020);
  CHECK(config.host_memory == 1_GiB);
  CHECK(config.order == DeviceOrder::reverse);
  CHECK_FALSE(config.poison);
  CHECK(config.numa_of(0) == 1);
  CHECK(config.numa_of(1) == -1);
  CHECK_FALSE(config.same_host_address);
  CHECK(config.pageable_access == berth::sim::PageableAccess::host_page_tables);
  CHECK(config.mig == berth::sim::MigDevices{{1, 3}});
  CHECK(config.connections == 32);
  CHECK(config.queue_entries == 1000);
  CHECK(config.driver_lock);
  CHECK(config.silence_ms == 50);
  CHECK(config.launch_blocking == LaunchBlocking::none);
  CHECK_FALSE(config.memory_operations_of(1));
  CHECK(config.checks.wants("race"));
  CHECK_FALSE(config.checks.wants("aliasing"));
  CHECK(config.checks.wants("leak"));
  CHECK(config.on_finding == berth::sim::OnFinding::abort);
  CHECK(config.call_sites);
}

TEST_CASE("missing progress is reported for all choices of checks") {
  const Config off = Config::parse("checks=off");
  CHECK_FALSE(off.checks);
  CHECK_FALSE(off.checks.wants("race"));
  CHECK(off.checks.wants("shared channel"));
  CHECK(Config::parse("checks=on") == Config{});
  CHECK(Config::parse("checks=race/aliasing/leak/fault") == Config{});
}

TEST_CASE("a stream holds as many operations by default as hardware was seen to hold") {
  CHECK(Config().queue_entries == 1024);
}

TEST_CASE("one memory size serves all devices") {
  CHECK(Config::parse("devices=3,memory=4GiB").memory_of(2) == 4_GiB);
}

TEST_CASE("to_text() returns text that parse() reads back") {
  for (const char* text : {"",
                           "devices=2,memory=80GiB/1GiB,progress=manual,seed=7,order=reverse",
                           "vmm=off,peer=off,poison=off,name=a b=c,granularity=4KiB",
                           "mig=off",
                           "devices=3,numa=0/none/1023,same_host_address=off",
                           "numa=none",
                           "devices=4,mig=3:7/0:0",
                           "pageable_access=page_faults",
                           "connections=off,queue=1,launch_blocking=on",
                           "launch_blocking=all",
                           "connections=auto,queue=off,driver_lock=on",
                           "launch_blocking=off,memory_operations=off",
                           "devices=2,memory_operations=on/off",
                           "checks=aliasing,on_finding=abort,call_sites=on",
                           "checks=race/leak",
                           "checks=off",
                           "kernels=skip",
                           "fabric=on,rdma=on",
                           "silence_ms=0",
                           "silence_ms=auto"}) {
    const Config config = Config::parse(text);
    CHECK(Config::parse(config.to_text()) == config);
  }
}

TEST_CASE("errors name the refused text and the accepted values in one line") {
  struct Case {
    const char* text;
    const char* named;
    const char* accepted;
  };
  const Case cases[] = {
      {"color=2", "\"color=2\"", "devices, memory"},
      {"device=2", "\"device=2\"", "perhaps devices"},
      {"quue=5", "\"quue=5\"", "perhaps queue"},
      {"devices", "\"devices\"", "key=value"},
      {"devices=2,", "\"\"", "key=value"},
      {",devices=2", "\"\"", "key=value"},
      {"=2", "\"=2\"", "key=value"},
      {"devices=0", "devices=\"0\"", "1 to 64"},
      {"devices=65", "devices=\"65\"", "1 to 64"},
      {"devices=-1", "devices=\"-1\"", "1 to 64"},
      {"devices=2x", "devices=\"2x\"", "1 to 64"},
      {"devices=99999999999999999999", "devices=", "1 to 64"},
      {"devices=", "devices=\"\"", "1 to 64"},
      {"devices=1,devices=1", "devices is set twice", "once"},
      {"memory=lots", "memory=\"lots\"", "80GiB"},
      {"memory=", "memory=\"\"", "80GiB"},
      {"memory=0", "memory=\"0\"", "16 TiB"},
      {"memory=17TiB", "memory=\"17TiB\"", "16 TiB"},
      {"memory=1GiB/2GiB", "memory names 2 devices", "one a device"},
      {"memory=1MiB", "memory=1048576", "granule"},
      {"progress=fast", "progress=\"fast\"", "eager, manual, random or timed"},
      {"jitter=91", "jitter=\"91\"", "0 to 90"},
      {"checks=yes", "checks=\"yes\"", "race, aliasing, leak and fault"},
      {"checks=race/", "checks=\"race/\"", "race/leak"},
      {"on_finding=stop", "on_finding=\"stop\"", "report or abort"},
      {"call_sites=1", "call_sites=\"1\"", "on or off"},
      {"kernels=run", "kernels=\"run\"", "refuse, skip or host"},
      {"seed=-1", "seed=\"-1\"", "18446744073709551615"},
      {"name=", "name=\"\"", "1 to 64 characters"},
      {"granularity=3MiB", "granularity=\"3MiB\"", "power of two"},
      {"granularity=2KiB", "granularity=\"2KiB\"", "4KiB"},
      {"vmm=yes", "vmm=\"yes\"", "on or off"},
      {"peer=1", "peer=\"1\"", "on or off"},
      {"silence_ms=-1", "silence_ms=\"-1\"", "0 to 3600000"},
      {"poison=0", "poison=\"0\"", "on or off"},
      {"driver_version=9000", "driver_version=\"9000\"", "11040"},
      {"host_memory=-1", "host_memory=\"-1\"", "16 TiB"},
      {"numa=1024", "numa=\"1024\"", "0 to 1023 or none"},
      {"numa=-1", "numa=\"-1\"", "0 to 1023 or none"},
      {"numa=0/1", "numa names 2 devices", "one a device"},
      {"memory_operations=on/off", "memory_operations names 2 devices", "one a device"},
      {"same_host_address=no", "same_host_address=\"no\"", "on or off"},
      {"order=random", "order=\"random\"", "pci or reverse"},
      {"connections=0", "connections=\"0\"", "1 to 32, off, or auto"},
      {"connections=33", "connections=\"33\"", "1 to 32, off, or auto"},
      {"connections=on", "connections=\"on\"", "1 to 32, off, or auto"},
      {"queue=0", "queue=\"0\"", "1 to 1048576 entries, or off"},
      {"queue=1048577", "queue=\"1048577\"", "1 to 1048576 entries, or off"},
      {"driver_lock=1", "driver_lock=\"1\"", "on or off"},
      {"launch_blocking=1", "launch_blocking=\"1\"", "on, off, all, or auto"},
      {"memory_operations=v1", "memory_operations=\"v1\"", "on or off, for all devices"},
  };
  for (const Case& c : cases) {
    CAPTURE(c.text);
    const std::string message = refusal(c.text);
    CAPTURE(message);
    CHECK(mentions(message, c.named));
    CHECK(mentions(message, c.accepted));
    CHECK(message.find('\n') == std::string::npos);
  }
}

TEST_CASE("docs/simulator.md has every key") {
  const std::string page =
      berth::test::content_of(berth::test::source_root() / "docs/simulator.md");
  const std::string keys = Config{}.to_text() + ",";
  for (std::size_t at = 0; at < keys.size(); at = keys.find(',', at) + 1) {
    const std::string key = keys.substr(at, keys.find('=', at) - at);
    CHECK_MESSAGE(page.find("`" + key + "`") != std::string::npos, key);
  }
}

}  // namespace config_test
