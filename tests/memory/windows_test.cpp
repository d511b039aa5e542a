// SPDX-License-Identifier: Apache-2.0
// Granules mapped a second time, on the simulated driver: every mapping and every byte is checked.
#include "memory/source/windows.hpp"

#include <algorithm>
#include <initializer_list>
#include <optional>
#include <random>
#include <vector>

#include <doctest/doctest.h>

#include "berth/bytes.hpp"

#include "support/device_bytes.hpp"
#include "support/tapped_device.hpp"

namespace windows_test {

using namespace berth;
using namespace berth::test;

namespace {

constexpr std::size_t kGranule = 2_MiB;
constexpr std::size_t kGranules = 8;
constexpr std::size_t kMappingsMax = 6;

using Granules = std::vector<GranuleNumber>;

GranuleSequence sequence(const Granules& granules) {
  GranuleSequence result;
  for (const GranuleNumber granule : granules) result.append(granule, granule + 1);
  return result;
}

sim::Config device_of_all_granules() {
  sim::Config config;
  config.memory = {kGranules * kGranule};
  return config;
}

/// An arena whose granules are all mapped at home, and windows onto it.
struct WindowsFixture : TappedDevice {
  WindowsFixture() : TappedDevice(device_of_all_granules()) {
    REQUIRE(arena.map(arena.address(), arena.bytes()));
  }

  [[nodiscard]] std::uintptr_t home(GranuleNumber granule) const {
    return arena.address() + granule * kGranule;
  }
  /// Mappings other than those at home.
  [[nodiscard]] std::size_t mapped() const { return simulator.live().mappings - kGranules; }

  std::uintptr_t map(const Granules& granules) {
    const auto address = windows->map(sequence(granules));
    REQUIRE(address.has_value());
    return *address;
  }
  void fill(std::uintptr_t address, std::size_t bytes, unsigned char value) {
    const ContextScope scope(context);
    driver.memset_d8_async(CUdeviceptr{address}, value, bytes, CUstream{nullptr});
    driver.stream_synchronize(CUstream{nullptr});
  }
  [[nodiscard]] bool holds(std::uintptr_t address, std::size_t bytes, unsigned char value) const {
    return test::holds(simulator, address, bytes, value);
  }
  /// Whether a window shows `granules`: each is written at home, and seen.
  [[nodiscard]] bool shows(std::uintptr_t address, const Granules& granules) {
    bool same = true;
    for (const GranuleNumber granule : granules) {
      const auto value = static_cast<unsigned char>(++last_value_);
      fill(home(granule), kGranule, value);
      for (std::size_t place = 0; place < granules.size(); ++place) {
        if (granules[place] == granule)
          same = same && holds(address + place * kGranule, kGranule, value);
      }
    }
    return same;
  }

  template <class IsIdle>
  void drop_to_bound(const IsIdle& is_idle) {
    windows->choose_victims(is_idle);
    windows->drop_victims();
  }

  Arena arena{context, kGranules* kGranule, kGranule};
  std::optional<Windows> windows{std::in_place, context, arena, kMappingsMax};

 private:
  unsigned last_value_ = 0;
};

}  // namespace

TEST_CASE_FIXTURE(WindowsFixture, "without windows there is neither address space nor mapping") {
  CHECK(simulator.live().reservations == 1);  // the arena's
  CHECK(windows->mappings() == 0);
  CHECK_FALSE(windows->find(sequence({0, 1})).has_value());
  windows->drop(0, kGranules);
  windows->drop_all();
  CHECK(mapped() == 0);
}

TEST_CASE_FIXTURE(WindowsFixture, "a window and the home of its granules show the same bytes") {
  const Granules granules{5, 0, 7};
  const std::uintptr_t window = map(granules);
  CHECK(window % kGranule == 0);
  CHECK_FALSE(arena.contains(window));
  CHECK(mapped() == 3);
  CHECK(windows->mappings() == 3);
  CHECK(shows(window, granules));
  for (std::size_t place = 0; place < granules.size(); ++place) {
    const auto value = static_cast<unsigned char>(0x40 + place);
    fill(window + place * kGranule, kGranule, value);
    CHECK(holds(home(granules[place]), kGranule, value));
  }
  fill(window, 3 * kGranule, 0x77);  // in one piece, across the seams
  for (const GranuleNumber granule : granules) CHECK(holds(home(granule), kGranule, 0x77));
  fill(home(0), kGranules * kGranule, 0);
  CHECK(simulator.device_bytes_used(0) == kGranules * kGranule);
}

TEST_CASE_FIXTURE(WindowsFixture, "a window may contain a granule twice, at both ends") {
  const Granules granules{3, 1, 3};
  const std::uintptr_t window = map(granules);
  CHECK(shows(window, granules));
  fill(window, kGranule, 0x51);
  CHECK(holds(window + 2 * kGranule, kGranule, 0x51));
  windows->drop(3, 4);
  CHECK(mapped() == 0);
  CHECK(windows->mappings() == 0);
}

TEST_CASE_FIXTURE(
    WindowsFixture,
    "a window is found by the same granules in the same order, without a driver call") {
  const std::uintptr_t window = map({2, 4, 6});
  const std::uint64_t calls = simulator.calls("cuMemMap");
  CHECK(windows->find(sequence({2, 4, 6})) == window);
  CHECK(simulator.calls("cuMemMap") == calls);
  for (const Granules& other :
       {Granules{4, 2, 6}, {2, 4}, {2}, {4, 6}, {2, 4, 6, 7}, {2, 4, 7}, {7}, {2, 4, 6, 2}}) {
    CHECK_FALSE(windows->find(sequence(other)).has_value());
  }
  const std::uintptr_t shorter = map({2, 4});
  CHECK(windows->find(sequence({2, 4})) == shorter);
  CHECK(windows->find(sequence({2, 4, 6})) == window);
}

TEST_CASE_FIXTURE(WindowsFixture, "a window of runs is found by the same granules only") {
  const Granules all[] = {{0, 1, 5}, {0, 4, 5}, {0, 1, 2}, {5, 0, 1}};
  std::vector<std::uintptr_t> addresses;
  for (const Granules& granules : all) {
    REQUIRE_FALSE(windows->find(sequence(granules)).has_value());
    addresses.push_back(map(granules));
  }
  for (std::size_t i = 0; i < addresses.size(); ++i) {
    CHECK(windows->find(sequence(all[i])) == addresses[i]);
    CHECK(shows(addresses[i], all[i]));
  }
}

TEST_CASE("a sequence has as few runs as its granules allow, however they are appended") {
  GranuleSequence one_by_one;
  for (const GranuleNumber granule : {3, 4, 5, 5, 9, 8}) one_by_one.append(granule, granule + 1);
  GranuleSequence at_once;
  at_once.append(3, 6);
  at_once.append(5, 6);
  at_once.append(9, 10);
  at_once.append(8, 9);
  REQUIRE(one_by_one.size() == 6);
  REQUIRE(at_once.size() == 6);
  REQUIRE(one_by_one.runs().size() == 4);
  for (std::size_t i = 0; i < 4; ++i) {
    CHECK(one_by_one.runs()[i].first == at_once.runs()[i].first);
    CHECK(one_by_one.runs()[i].size == at_once.runs()[i].size);
  }
}

TEST_CASE_FIXTURE(WindowsFixture,
                  "dropping granules unmaps the windows that show any of them, no others") {
  const std::uintptr_t low = map({0, 2});
  const std::uintptr_t both = map({6, 2, 4});
  const std::uintptr_t high = map({5, 7});
  const std::uintptr_t last = map({7, 1});
  CHECK(mapped() == 9);
  windows->drop(3, 5);  // granule 4 is in one, 3 in none
  CHECK_FALSE(windows->find(sequence({6, 2, 4})).has_value());
  CHECK(simulator.peek(both, 1).empty());
  CHECK(mapped() == 6);
  CHECK(windows->mappings() == 6);
  CHECK(windows->find(sequence({0, 2})) == low);
  CHECK(windows->find(sequence({5, 7})) == high);
  CHECK(windows->find(sequence({7, 1})) == last);
  CHECK(shows(low, {0, 2}));
  CHECK(shows(high, {5, 7}));
  windows->drop(7, 8);
  CHECK(mapped() == 2);
  CHECK(shows(low, {0, 2}));
  for (GranuleNumber granule = 0; granule < kGranules; ++granule)
    CHECK(holds(home(granule), 1, simulator.peek(home(granule), 1).at(0)));
}

TEST_CASE_FIXTURE(WindowsFixture,
                  "beyond the bound the least recently used idle windows are unmapped") {
  map({0, 1});
  map({2, 3});
  map({4, 5});
  CHECK_FALSE(windows->is_over_bound());
  map({6, 7});
  CHECK(windows->is_over_bound());
  CHECK(windows->find(sequence({0, 1})).has_value());  // wanted again: the last to go now

  SUBCASE("none if no window is idle") {
    drop_to_bound([](GranuleNumber) { return false; });
    CHECK(mapped() == 8);
    CHECK(windows->is_over_bound());
  }
  SUBCASE("only the excess if all are idle") {
    drop_to_bound([](GranuleNumber) { return true; });
    CHECK(mapped() == 6);
    CHECK_FALSE(windows->find(sequence({2, 3})).has_value());
    CHECK(windows->find(sequence({0, 1})).has_value());
  }
  SUBCASE("one that was unmapped since the choice is skipped") {
    windows->choose_victims([](GranuleNumber) { return true; });
    windows->drop(2, 3);
    CHECK(mapped() == 6);
    windows->drop_victims();
    CHECK(mapped() == 6);
    CHECK(windows->find(sequence({0, 1})).has_value());
  }
  SUBCASE("those in use stay, one idle granule makes a window idle") {
    drop_to_bound([](GranuleNumber granule) { return granule == 7 || granule == 0; });
    CHECK(mapped() == 6);
    CHECK_FALSE(windows->find(sequence({6, 7})).has_value());
    CHECK(windows->find(sequence({0, 1})).has_value());
    CHECK(windows->find(sequence({2, 3})).has_value());
  }
  CHECK(windows->mappings() == mapped());
}

TEST_CASE_FIXTURE(WindowsFixture, "address space is reused and merges in any order of unmapping") {
  // There is address space for twice kMappingsMax granules: six windows of two.
  const std::vector<Granules> pairs{{0, 1}, {1, 0}, {2, 3}, {3, 2}, {4, 5}, {5, 4}};
  const std::vector<GranuleNumber> all{0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 3};
  for (const std::vector<std::size_t>& order :
       {std::vector<std::size_t>{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}}) {
    for (const Granules& pair : pairs) map(pair);
    CHECK_FALSE(windows->map(sequence({6, 7})).has_value());  // no address space: nothing happens
    CHECK(mapped() == 12);
    CHECK_FALSE(windows->find(sequence({6, 7})).has_value());
    for (const std::size_t index : order) {
      const auto first = static_cast<GranuleNumber>(2 * index);
      windows->drop(first, first + 1);
    }
    CHECK(mapped() == 0);
    CHECK(shows(map(all), all));
    windows->drop_all();
  }
  CHECK(simulator.calls("cuMemAddressReserve") == 2);  // the arena's, and one for all windows
}

TEST_CASE_FIXTURE(WindowsFixture, "fragmented address space that is too small is not used") {
  for (const Granules& pair : {Granules{0, 1}, {2, 3}, {4, 5}, {5, 4}, {3, 2}, {1, 0}}) map(pair);
  windows->drop(2, 4);  // two granules, twice, and not side by side
  CHECK(mapped() == 8);
  CHECK_FALSE(windows->map(sequence({2, 3, 6})).has_value());
  CHECK(mapped() == 8);
  CHECK(shows(map({2, 3}), {2, 3}));
  CHECK(shows(map({6, 7}), {6, 7}));
}

TEST_CASE_FIXTURE(WindowsFixture,
                  "a driver failure in any step of mapping leaks nothing, and a retry succeeds") {
  struct Refusal {
    DriverCall call;
    int times;  ///< that it is called for a window of three granules
  };
  const std::uintptr_t kept = map({1, 3});
  for (const Refusal& refusal :
       {Refusal{DriverCall::mem_map, 3}, Refusal{DriverCall::mem_set_access, 1}}) {
    for (int nth = 1; nth <= refusal.times; ++nth) {
      CAPTURE(kDriverCallNames[std::size_t(refusal.call)]);
      CAPTURE(nth);
      const sim::Live before = simulator.live();
      for (const bool out_of_memory : {true, false}) {
        if (out_of_memory) {
          tap.refuse(refusal.call, CUDA_ERROR_OUT_OF_MEMORY, nth);
          CHECK_FALSE(windows->map(sequence({0, 2, 4})).has_value());
        } else {
          tap.refuse(refusal.call, CUDA_ERROR_UNKNOWN, nth);
          CHECK_THROWS_AS(windows->map(sequence({0, 2, 4})), DriverError);
        }
        CHECK(simulator.live() == before);
        CHECK(windows->mappings() == 2);
        CHECK_FALSE(windows->find(sequence({0, 2, 4})).has_value());
        CHECK(windows->find(sequence({1, 3})) == kept);
      }
      const std::uintptr_t window = map({0, 2, 4});
      CHECK(window == kept + 2 * kGranule);  // the address space that was given back
      CHECK(shows(window, {0, 2, 4}));
      windows->drop(0, 1);
      CHECK(simulator.live() == before);
    }
  }
  CHECK(reports.all().empty());
}

TEST_CASE_FIXTURE(WindowsFixture, "a failed address reservation is retried") {
  const sim::Live before = simulator.live();
  tap.refuse(DriverCall::mem_address_reserve, CUDA_ERROR_OUT_OF_MEMORY);
  CHECK_FALSE(windows->map(sequence({0, 2})).has_value());
  CHECK(simulator.live() == before);
  tap.refuse(DriverCall::mem_address_reserve, CUDA_ERROR_UNKNOWN);
  CHECK_THROWS_AS(windows->map(sequence({0, 2})), DriverError);
  CHECK(simulator.live() == before);
  CHECK(windows->mappings() == 0);
  CHECK(shows(map({0, 2}), {0, 2}));
}

TEST_CASE_FIXTURE(WindowsFixture,
                  "less address space is reserved if the driver refuses the full amount") {
  windows.emplace(context, arena, std::size_t{1} << 26);  // would like 256 TiB
  const std::uint64_t before = simulator.calls("cuMemAddressReserve");
  CHECK(shows(map({0, 2}), {0, 2}));
  CHECK(simulator.calls("cuMemAddressReserve") >= before + 3);
  windows.reset();
  CHECK(simulator.live().reservations == 1);
  CHECK(reports.all().empty());
}

TEST_CASE_FIXTURE(WindowsFixture, "a context that cannot be made current maps nothing") {
  map({6, 7});  // address space is there
  const sim::Live before = simulator.live();
  for (const DriverCall call : {DriverCall::ctx_get_current, DriverCall::ctx_push_current}) {
    CAPTURE(kDriverCallNames[std::size_t(call)]);
    tap.refuse(call, CUDA_ERROR_UNKNOWN);
    CHECK_THROWS_AS(windows->map(sequence({0, 2})), DriverError);
    CHECK(simulator.live() == before);
    CHECK(windows->mappings() == 2);
    CHECK_FALSE(windows->find(sequence({0, 2})).has_value());
  }
  CHECK(shows(map({0, 2}), {0, 2}));
}

namespace {

/// What the driver would not unmap is unmapped in the end, so that nothing is left.
void unmap_by_hand(WindowsFixture& test, std::uintptr_t address) {
  const ContextScope scope(test.context);
  test.driver.mem_unmap(CUdeviceptr{address}, kGranule);
}

}  // namespace

TEST_CASE_FIXTURE(
    WindowsFixture,
    "a window that the driver does not unmap is reported, and its address not used again") {
  const std::uintptr_t window = map({0, 2});
  tap.refuse(DriverCall::mem_unmap, CUDA_ERROR_UNKNOWN, 2);
  windows->drop_all();
  CHECK(reports.count(Severity::error) == 1);
  CHECK(reports.mention("cuMemUnmap"));
  CHECK(mapped() == 1);
  CHECK(windows->mappings() == 0);
  CHECK_FALSE(windows->find(sequence({0, 2})).has_value());
  const std::uintptr_t next = map({0, 2});
  CHECK(next >= window + 2 * kGranule);
  CHECK(shows(next, {0, 2}));
  unmap_by_hand(*this, window + kGranule);
}

TEST_CASE_FIXTURE(WindowsFixture,
                  "a half-made window that the driver does not unmap keeps its address, too") {
  tap.refuse(DriverCall::mem_map, CUDA_ERROR_OUT_OF_MEMORY, 3);
  tap.refuse(DriverCall::mem_unmap, CUDA_ERROR_UNKNOWN);
  CHECK_FALSE(windows->map(sequence({0, 2, 4})).has_value());
  CHECK(reports.count(Severity::error) == 1);
  REQUIRE(mapped() == 1);
  const std::uintptr_t window = map({0, 2, 4});
  CHECK(shows(window, {0, 2, 4}));
  unmap_by_hand(*this, window - 3 * kGranule);
}

TEST_CASE_FIXTURE(WindowsFixture, "mappings and address space go with the windows") {
  map({0, 2});
  map({1, 3, 5});
  windows.reset();
  CHECK(mapped() == 0);
  CHECK(simulator.live().reservations == 1);
  CHECK(simulator.live().physical_handles == kGranules);
  CHECK(holds(home(7), 1, simulator.peek(home(7), 1).at(0)));
}

TEST_CASE_FIXTURE(WindowsFixture,
                  "random windows are found as long as they are mapped, and show the right bytes") {
  struct Window {
    Granules granules;
    std::uintptr_t address;
  };
  std::mt19937 random(7);
  const auto below = [&](std::size_t bound) { return std::size_t(random() % bound); };
  std::vector<Window> model;  // wanted longest ago first
  const auto shows_any = [](const Window& window, GranuleNumber first, GranuleNumber end) {
    return std::ranges::any_of(
        window.granules, [&](GranuleNumber granule) { return first <= granule && granule < end; });
  };
  std::size_t found_again = 0;
  for (int operation = 0; operation < 1500; ++operation) {
    CAPTURE(operation);
    const std::size_t kind = below(8);
    if (kind < 5) {
      Granules granules(1 + below(4));
      for (GranuleNumber& granule : granules) granule = static_cast<GranuleNumber>(below(4));
      const auto known = std::ranges::find(model, granules, &Window::granules);
      const auto found = windows->find(sequence(granules));
      REQUIRE(found.has_value() == (known != model.end()));
      if (found) {
        REQUIRE(*found == known->address);
        std::rotate(known, known + 1, model.end());
        ++found_again;
      } else if (const auto address = windows->map(sequence(granules))) {
        model.push_back({granules, *address});
      }
    } else if (kind < 6) {
      const auto first = static_cast<GranuleNumber>(below(kGranules));
      windows->drop(first, first + 1);
      std::erase_if(model,
                    [&](const Window& window) { return shows_any(window, first, first + 1); });
    } else {
      const auto idle = static_cast<GranuleNumber>(below(4));
      drop_to_bound([&](GranuleNumber granule) { return granule == idle; });
      std::size_t mappings = 0;
      for (const Window& window : model) mappings += window.granules.size();
      std::erase_if(model, [&](const Window& window) {
        if (mappings <= kMappingsMax || !shows_any(window, idle, idle + 1)) return false;
        mappings -= window.granules.size();
        return true;
      });
    }
    std::size_t mappings = 0;
    for (const Window& window : model) mappings += window.granules.size();
    REQUIRE(windows->mappings() == mappings);
    REQUIRE(mapped() == mappings);
    REQUIRE(windows->is_over_bound() == (mappings > kMappingsMax));
    if (operation % 50 == 0) {
      for (const Window& window : model) REQUIRE(shows(window.address, window.granules));
    }
  }
  CHECK(found_again > 50);
}

}  // namespace windows_test
