// SPDX-License-Identifier: Apache-2.0
// RuntimeOptions as text: what each key sets, what is refused and how, and the precedence of
// sources.
#include "berth/configuration.hpp"

#include <chrono>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "runtime/configuration_samples.hpp"
#include "stats/source_root.hpp"
#include "support/environment.hpp"
#include "support/errors.hpp"
#include "support/simulation.hpp"
#include "support/thinned.hpp"

namespace configuration_test {

using namespace berth;
using namespace berth::test;
using namespace std::chrono_literals;

namespace {

std::string refusal(std::string_view text) {
  return message_of<InvalidArgument>([&] { return configure({}, text); });
}

/// Without its "configuration: ".
std::string complaints(std::string_view text) {
  const std::string message = refusal(text);
  constexpr std::string_view source = "configuration: ";
  CHECK(message.starts_with(source));
  return message.substr(source.size());
}

/// Options none of which has its default.
RuntimeOptions all_different() {
  return configure(
      {},
      "driver=/opt/lib cuda.so, bytes_reserved_max=60GiB, "
      "bytes_reserved_soft_max=37.5%, headroom_bytes=2GiB, release_unused_after=90s, "
      "cross_stream_reuse=never, virtual_memory=off, granule_bytes=4MiB, segment_bytes=64MiB, "
      "pinned_bytes_reserved_max=1536MiB, pinned_segment_bytes=1MiB, "
      "pinned_bytes_cached_max=3GiB, pinned_slack_max=2.5%, pinned_prefault_threads=9, "
      "pinned_low_water_bytes=256MiB, "
      "host_bytes_reserved_max=20GiB, streams_max=7, "
      "streams_on_shortage=wait, events_max=99, "
      "staging_slot_bytes=68KiB, staging_slots=3, staging_on_shortage=grow, copy_gates=off, "
      "copy_workers=3, copy_file_workers=5, copy_direct_piece_bytes=1MiB, "
      "copy_batched_range_bytes_min=28KiB, copy_packed_range_bytes_max=3KiB, pjrt=tpu:libtpu.so");
}

std::string whole_text(const RuntimeOptions& options) {
  std::string text;
  for (const ConfigurationEntry& entry : describe(options))
    text += (text.empty() ? "" : ",") + entry.key + "=" + entry.value;
  return text;
}

}  // namespace

TEST_CASE("every key sets its option") {
  const RuntimeOptions options = all_different();
  CHECK(options.driver == "/opt/lib cuda.so");
  const DeviceAllocatorOptions& device = options.device_allocator;
  CHECK(device.limits.bytes_reserved_max == MemoryAmount(60_GiB));
  CHECK(device.limits.bytes_reserved_soft_max == MemoryAmount::part_of_device(0.375));
  CHECK(device.headroom_bytes == MemoryAmount(2_GiB));
  CHECK(device.release_unused_after == 90s);
  CHECK(device.cross_stream_reuse == CrossStreamReuse::never);
  CHECK_FALSE(device.virtual_memory);
  CHECK(device.granule_bytes == 4_MiB);
  CHECK(device.segment_bytes == 64_MiB);
  CHECK(options.pinned_allocator.bytes_reserved_max == 1536_MiB);
  CHECK(options.pinned_allocator.segment_bytes == 1_MiB);
  CHECK(options.pinned_allocator.bytes_cached_max == 3_GiB);
  CHECK(options.pinned_allocator.slack_max == 0.025);
  CHECK(options.pinned_allocator.prefault_threads == 9);
  CHECK(options.pinned_allocator.low_water_bytes == 256_MiB);
  CHECK(options.host_allocator.bytes_reserved_max == 20_GiB);
  CHECK(options.stream_pool.streams_max == 7);
  CHECK(options.stream_pool.on_shortage == StreamShortage::wait);
  CHECK(options.event_pool.events_max == 99);
  CHECK(options.copier.staging_slot_bytes == 68_KiB);
  CHECK(options.copier.staging_slots == 3);
  CHECK(options.copier.staging_on_shortage == StagingShortage::grow);
  CHECK(options.copier.gates == CopyGates::off);
  CHECK(options.copier.workers == 3);
  CHECK(options.copier.file_workers == 5);
  CHECK(options.copier.direct_piece_bytes == 1_MiB);
  CHECK(options.copier.batched_range_bytes_min == 28_KiB);
  CHECK(options.copier.packed_range_bytes_max == 3_KiB);

  const auto defaults = values_of({});
  for (const auto& entry : values_of(options))
    CHECK_MESSAGE(entry.second != defaults.at(entry.first), entry.first);
}

TEST_CASE("omitted keys keep the values of the code, callbacks included") {
  RuntimeOptions code = all_different();
  code.report = [](const Report&) {};
  code.device_allocator.on_pressure = [](std::size_t) { return false; };
  CHECK(values_of(configure(code, "")) == values_of(code));
  CHECK(values_of(configure(code, "   ")) == values_of(code));
  const RuntimeOptions changed = configure(code, " staging_slots = 9 ");
  CHECK(difference(code, changed) == "staging_slots=9");
  CHECK(changed.report != nullptr);
  CHECK(changed.device_allocator.on_pressure != nullptr);
}

TEST_CASE("none, never and 0 reset an option") {
  const RuntimeOptions options =
      configure(all_different(),
                "bytes_reserved_max=none,bytes_reserved_soft_max=none,release_unused_after=never,"
                "pinned_bytes_reserved_max=none,host_bytes_reserved_max=none,granule_bytes=0,"
                "headroom_bytes=0");
  CHECK_FALSE(options.device_allocator.limits.bytes_reserved_max);
  CHECK_FALSE(options.device_allocator.limits.bytes_reserved_soft_max);
  CHECK_FALSE(options.device_allocator.release_unused_after);
  CHECK_FALSE(options.pinned_allocator.bytes_reserved_max);
  CHECK_FALSE(options.host_allocator.bytes_reserved_max);
  CHECK(options.device_allocator.granule_bytes == 0);
  CHECK(options.device_allocator.headroom_bytes == MemoryAmount(0));
}

TEST_CASE("configure() reads back the values of describe(), which are in natural units") {
  RuntimeOptions defaults;
  defaults.driver = "cuda";
  for (const RuntimeOptions& options : {defaults, all_different()})
    CHECK(values_of(configure({}, whole_text(options))) == values_of(options));

  struct Case {
    const char* given;
    const char* described;
  };
  const Case cases[] = {
      {"bytes_reserved_max=1024MiB", "bytes_reserved_max=1GiB"},
      {"bytes_reserved_max=4097", "bytes_reserved_max=4097"},
      {"bytes_reserved_max=1.5 gb", "bytes_reserved_max=1536MiB"},
      {"bytes_reserved_max=0", "bytes_reserved_max=0"},
      {"bytes_reserved_max=2TiB", "bytes_reserved_max=2TiB"},
      {"bytes_reserved_max=90%", "bytes_reserved_max=90%"},
      {"bytes_reserved_max=0%", "bytes_reserved_max=0%"},
      {"bytes_reserved_max=100%", "bytes_reserved_max=100%"},
      {"bytes_reserved_max=99.9%", "bytes_reserved_max=99.9%"},
      {"bytes_reserved_max=0.00001%", "bytes_reserved_max=1e-05%"},
      {"release_unused_after=1ms", "release_unused_after=1ms"},
      {"release_unused_after=1500ms", "release_unused_after=1500ms"},
      {"release_unused_after=2min", "release_unused_after=2min"},
      {"release_unused_after=120s", "release_unused_after=2min"},
      {"release_unused_after=8760h", "release_unused_after=8760h"},
  };
  for (const Case& c : cases) {
    CAPTURE(c.given);
    const RuntimeOptions options = configure({}, c.given);
    CHECK(difference({}, options) == c.described);
    CHECK(values_of(configure({}, c.described)) == values_of(options));
  }
}

TEST_CASE("describe() refuses a number that no word of an option has") {
  RuntimeOptions options;
  options.stream_pool.on_shortage = static_cast<StreamShortage>(9);
  CHECK(message_of<InvalidArgument>([&] { return describe(options); }) ==
        "StreamPoolOptions::on_shortage is 9; accepted: share, wait, fail");
  options = {};
  options.copier.gates = static_cast<CopyGates>(3);
  CHECK(message_of<InvalidArgument>([&] { return describe(options); }) ==
        "CopierOptions::gates is 3; accepted: auto, on, off");
}

TEST_CASE("a percentage is described as it was written") {
  for (int tenths = 0; tenths <= 1000; ++tenths) {
    const std::string percent =
        std::to_string(tenths / 10) + (tenths % 10 ? "." + std::to_string(tenths % 10) : "") + "%";
    const RuntimeOptions options = configure({}, "headroom_bytes=" + percent);
    CHECK(values_of(options).at("headroom_bytes") == percent);
  }
}

TEST_CASE("a refused value is quoted with the accepted ones") {
  for (const ConfigurationEntry& entry : describe({})) {
    for (const std::string value : {"", "-1", "yes", "12parsecs", "0x10", "nan%", "\x01\xff/"}) {
      CAPTURE(entry.key);
      CAPTURE(value);
      const std::string message = complaints(entry.key + "=" + value);
      CHECK(message.starts_with(entry.key + "=\""));
      CHECK(message.ends_with("\" (accepted: " + entry.accepted + ")"));
    }
  }
  for (const char* text : {"driver=simulator",
                           "driver=CUDA",
                           "bytes_reserved_max=101%",
                           "bytes_reserved_max=-5%",
                           "bytes_reserved_max=-0%",
                           "bytes_reserved_max=%",
                           "bytes_reserved_max=inf%",
                           "bytes_reserved_max=50%%",
                           "bytes_reserved_max=never",
                           "bytes_reserved_max=17000000TiB",
                           "bytes_reserved_soft_max=1 %",
                           "headroom_bytes=none",
                           "release_unused_after=0ms",
                           "release_unused_after=none",
                           "release_unused_after=5",
                           "release_unused_after=1.5s",
                           "release_unused_after=10 s",
                           "release_unused_after=8761h",
                           "release_unused_after=s",
                           "release_unused_after=18446744073709551617ms",
                           "virtual_memory=1",
                           "virtual_memory=ON",
                           "granule_bytes=3MiB",
                           "granule_bytes=512",
                           "granule_bytes=4GiB",
                           "pjrt=cuda:/x",
                           "pjrt=cpu:/x",
                           "pjrt=tpu:/x;tpu:/y",
                           "pjrt=TPU:/x",
                           "pjrt=tpu 1:/x",
                           "pjrt=1tpu:/x",
                           "pjrt=tpu:/x;a_name_of_more_bytes_than_any_type_may_have:/y",
                           "segment_bytes=2097151",
                           "pinned_bytes_reserved_max=50%",
                           "pinned_segment_bytes=65535",
                           "pinned_segment_bytes=1073741825",
                           "pinned_bytes_cached_max=5%",
                           "pinned_slack_max=0.05GiB",
                           "pinned_slack_max=101%",
                           "pinned_slack_max=64KiB",
                           "pinned_prefault_threads=129",
                           "pinned_prefault_threads=-1",
                           "pinned_low_water_bytes=none",
                           "streams_max=0",
                           "streams_max=+1",
                           "streams_max=1.0",
                           "streams_on_shortage=Share",
                           "streams_on_shortage=",
                           "events_max=0",
                           "staging_slot_bytes=32KiB",
                           "staging_slot_bytes=65537",
                           "staging_slot_bytes=1028MiB",
                           "staging_slots=1",
                           "staging_slots=65537",
                           "staging_slots=18446744073709551616"}) {
    CAPTURE(text);
    CHECK(contains(complaints(text), "\" (accepted: "));
  }
}

TEST_CASE("a malformed entry is reported with its error") {
  CHECK(complaints("streams_max=1,,staging_slots=2") == "entry 2 of 3 is empty");
  CHECK(complaints("streams_max=1, ") == "entry 2 of 2 is empty");
  CHECK(complaints(",") == "entry 1 of 2 is empty; entry 2 of 2 is empty");
  CHECK(complaints("virtual_memory") ==
        "\"virtual_memory\" has no '=' (accepted: key=value such as virtual_memory=off)");
  CHECK(complaints("streams_max:1").starts_with("\"streams_max:1\" has no '='"));
  CHECK(complaints("streams_max=1,streams_max=1") == "streams_max is given again (accepted: once)");
  CHECK(complaints("=1").starts_with("unknown key \"\" (accepted: driver, bytes_reserved_max, "));
  CHECK(complaints("streams_max=1 staging_slots=2").starts_with("streams_max=\"1 staging_slots=2"));
}

TEST_CASE("an unknown key is refused with the similar key, or with all keys") {
  struct Case {
    const char* given;
    const char* meant;
  };
  const Case cases[] = {
      {"granul_bytes", "granule_bytes"},
      {"Streams_Max", "streams_max"},
      {"device_bytes_reserved_max", "bytes_reserved_max"},
      {"pinned_bytes_reserved", "pinned_bytes_reserved_max"},
      {"pinned_byte_reserved_max", "pinned_bytes_reserved_max"},
      {"bytes_reserved_maximum", "bytes_reserved_max"},
      {"soft_max", "bytes_reserved_soft_max"},
      {"headroom", "headroom_bytes"},
      {"staging_slot", "staging_slots"},
      {"release_unused", "release_unused_after"},
      {"virtual-memory", "virtual_memory"},
  };
  for (const Case& c : cases)
    CHECK(complaints(std::string(c.given) + "=1") ==
          "unknown key \"" + std::string(c.given) + "\", perhaps " + c.meant);

  std::string all;
  for (const ConfigurationEntry& entry : describe({})) all += (all.empty() ? "" : ", ") + entry.key;
  for (const std::string far : {"colour", "x", "max", "s"})
    CHECK(complaints(far + "=1") == "unknown key \"" + far + "\" (accepted: " + all + ")");
}

TEST_CASE("all errors are reported at once, and nothing is changed") {
  RuntimeOptions options = all_different();
  const auto before = values_of(options);
  const std::string message = message_of<InvalidArgument>([&] {
    options = configure(options,
                        "virtual_memory=on, colour=red, segment_bytes=1, staging_slots=5, nothing, "
                        "staging_slots=6,, granule_bytes=3");
  });
  CHECK(values_of(options) == before);
  std::size_t at = 0;
  for (const char* part :
       {"configuration: unknown key \"colour\"",
        "segment_bytes=\"1\" (accepted: ", "\"nothing\" has no '='", "staging_slots is given again",
        "entry 7 of 8 is empty", "granule_bytes=\"3\""}) {
    CAPTURE(part);
    const auto found = message.find(part, at);
    REQUIRE(found != std::string::npos);
    at = found;
  }
  CHECK_FALSE(contains(message, "virtual_memory=\""));
}

TEST_CASE("hostile text gives a message of one line and bounded length") {
  const std::string binary{'\0', '\n', '\x7f', '\xff', ',', '=', '\0', ',', '\r'};
  const std::size_t huge_bytes = Thinned(16).part_of(1 << 20);
  const std::string huge(huge_bytes, 'x');
  std::string many;
  const std::size_t many_count = Thinned(16).part_of(20000);
  for (std::size_t i = 0; i < many_count; ++i) many += "key" + std::to_string(i) + "=1,";
  for (const std::string& text : {binary, huge, huge + "=1", "streams_max=" + huge,
                                  "streams_max=" + std::string(huge_bytes, '9'),
                                  "headroom_bytes=" + std::string(huge_bytes, '9') + "%",
                                  std::string(1 << 16, ','), std::string(1 << 16, '='), many}) {
    const auto read = [&] { static_cast<void>(configure({}, text)); };
    CHECK_FALSE(read_or_refused(read));
  }
  CHECK(complaints(many).ends_with("; and " + std::to_string(many_count - 15) + " more"));
}

TEST_CASE("any text is read or refused, and accepted text can be written and read again") {
  const RuntimeOptions start = all_different();
  std::size_t read_count = 0;
  for_mutations({whole_text(start), "bytes_reserved_max=90%,bytes_reserved_soft_max=80%",
                 "release_unused_after=500ms, virtual_memory=on", "driver=sim,headroom_bytes=5%",
                 "granule_bytes=0", ""},
                [&](const std::string& text) {
                  RuntimeOptions options = start;
                  if (!read_or_refused([&] { options = configure(start, text); })) return;
                  ++read_count;
                  INFO(text);
                  CHECK(values_of(configure({}, whole_text(options))) == values_of(options));
                });
  CHECK(read_count > Thinned(5).part_of(1000));
}

TEST_CASE("a value is too small for a key exactly if it is too small for the option") {
  struct Case {
    const char* key;
    std::size_t least;
    void (*set)(RuntimeOptions&, std::size_t);
  };
  const Case cases[] = {
      {"segment_bytes", 2_MiB,
       [](RuntimeOptions& o, std::size_t v) { o.device_allocator.segment_bytes = v; }},
      {"pinned_segment_bytes", 64_KiB,
       [](RuntimeOptions& o, std::size_t v) { o.pinned_allocator.segment_bytes = v; }},
      {"streams_max", 1, [](RuntimeOptions& o, std::size_t v) { o.stream_pool.streams_max = v; }},
      {"staging_slot_bytes", 64_KiB,
       [](RuntimeOptions& o, std::size_t v) { o.copier.staging_slot_bytes = v; }},
      {"staging_slots", 2, [](RuntimeOptions& o, std::size_t v) { o.copier.staging_slots = v; }},
  };
  const auto use = [](const RuntimeOptions& options) {
    Simulation simulation({}, options);
    static_cast<void>(simulation.runtime->memory(Device::cuda(0)));
    static_cast<void>(simulation.runtime->streams(Device::cuda(0)));
  };
  for (const Case& c : cases) {
    CAPTURE(c.key);
    const auto text = [&c](std::size_t value) { return c.key + ("=" + std::to_string(value)); };
    use(configure({}, text(c.least)));
    refusal(text(c.least - 1));
    RuntimeOptions in_code;
    c.set(in_code, c.least - 1);
    CHECK_THROWS_AS(use(in_code), InvalidArgument);
  }
}

TEST_CASE("BERTH_CONF overrides the code, for every Runtime") {
  const ScopedEnvironment environment("BERTH_CONF", "streams_max=1,bytes_reserved_max=4MiB");
  RuntimeOptions code;
  code.stream_pool.streams_max = 3;
  code.copier.staging_slots = 5;
  Simulation simulation({}, code);
  Runtime& runtime = *simulation.runtime;
  CHECK(runtime.options().stream_pool.streams_max == 1);
  CHECK(runtime.options().copier.staging_slots == 5);

  const StreamLease first = runtime.streams(Device::cuda(0)).acquire();
  const StreamLease second = runtime.streams(Device::cuda(0)).acquire();
  CHECK(first->native() == second->native());
  CHECK(runtime.memory(Device::cuda(0)).allocate(1_MiB, first).data() != nullptr);
  CHECK_THROWS_AS(static_cast<void>(runtime.memory(Device::cuda(0)).allocate(5_MiB, first)),
                  OutOfMemory);
}

TEST_CASE("a malformed BERTH_CONF stops the Runtime, and names the variable") {
  const sim::Simulator simulator{sim::Config{}};
  RuntimeOptions options;
  options.driver = "sim";
  {
    const ScopedEnvironment environment("BERTH_CONF", "streams_max=0,colour=red");
    const std::string message =
        message_of<InvalidArgument>([&] { const Runtime runtime(options); });
    CHECK(message.starts_with("BERTH_CONF: streams_max=\"0\" (accepted: 1 or more); unknown key "));
    CHECK(message_of<InvalidArgument>([] { return configure_from_environment({}); }) == message);
  }
  {
    const ScopedEnvironment environment("BERTH_CONF", "pjrt=TPU 1:x.so");
    CHECK(message_of<InvalidArgument>([&] {
            const Runtime runtime(options);
          }).starts_with("BERTH_CONF: pjrt=\"TPU 1:x.so\" (accepted: none, or TYPE:PATH"));
  }
  for (const std::optional<std::string>& nothing : {std::optional<std::string>(), {""}, {"  "}}) {
    const ScopedEnvironment environment("BERTH_CONF", nothing);
    CHECK(values_of(configure_from_environment(all_different())) == values_of(all_different()));
    CHECK(Runtime(options).driver().usable);
  }
}

TEST_CASE("a driver is taken from BERTH_CONF, else from the code, else from BERTH_DRIVER") {
  const sim::Simulator simulator{sim::Config{}};
  const ScopedEnvironment lowest("BERTH_DRIVER", "/nonexistent/lowest.so");
  RuntimeOptions code;
  code.driver = "/nonexistent/code.so";
  const auto chosen = [](const RuntimeOptions& options) { return Runtime(options).driver().name; };
  CHECK(chosen({}) == "/nonexistent/lowest.so");
  CHECK(chosen(code) == "/nonexistent/code.so");
  const ScopedEnvironment highest("BERTH_CONF", "driver=sim");
  CHECK(chosen(code) == "sim");
  CHECK(chosen({}) == "sim");
}

TEST_CASE("a Runtime's options name the driver that was found") {
  const sim::Simulator simulator{sim::Config{}};
  RuntimeOptions options;
  options.driver = "auto";
  const Runtime runtime(options);
  CHECK(runtime.options().driver == runtime.driver().name);
  CHECK(values_of(runtime.options()).at("driver") == runtime.driver().name);
}

TEST_CASE(
    "docs/configuration.md has every key with its default and what is accepted, and no other") {
  const std::string page = content_of(source_root() / "docs" / "configuration.md");
  const std::string keys = page.substr(0, page.find("## PyTorch"));
  std::size_t rows = 0;
  for (auto at = keys.find("\n| `"); at != std::string::npos; at = keys.find("\n| `", at + 1))
    ++rows;
  const auto entries = describe({});
  CHECK(rows == entries.size());
  for (const ConfigurationEntry& entry : entries) {
    const std::string by_default = entry.value.empty() ? "" : "`" + entry.value + "` ";
    const std::string row = "| `" + entry.key + "` | " + by_default + "| " + entry.accepted + " |";
    CHECK_MESSAGE(contains(keys, row), row);
  }
}

}  // namespace configuration_test
