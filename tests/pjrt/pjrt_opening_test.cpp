// SPDX-License-Identifier: Apache-2.0
// What goes on while a plug-in initializes itself, which may take long.
#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <thread>

#include <doctest/doctest.h>

#include "pjrt/plugin_fixture.hpp"

namespace pjrt_opening_test {

using namespace berth;
using namespace berth::test;
using namespace std::string_literals;

namespace {

using Initialization = bool();

void at_initialization(const std::string& path, Initialization* act) {
  plugin_function<void(Initialization*)>(path, "berth_test_pjrt_at_initialization")(act);
}

/// Another thread that opens a plug-in.
class OtherOpening {
 public:
  /// Returns once the thread is about to open it.
  void begin(const std::string& path) {
    thread_ = std::thread([this, path] {
      has_begun_ = true;
      const auto backend = open_pjrt({"", path});
      was_initialized_ = is_initialized_.load();
    });
    while (!has_begun_) std::this_thread::yield();
  }
  /// The initialization ends.
  void note_initialized() { is_initialized_ = true; }
  /// Whether the plug-in was initialized when the thread had opened it.
  [[nodiscard]] bool end() {
    thread_.join();
    return was_initialized_;
  }

 private:
  std::thread thread_;
  std::atomic<bool> has_begun_ = false;
  std::atomic<bool> is_initialized_ = false;
  std::atomic<bool> was_initialized_ = false;
};

/// Of the test that runs.
struct Observed {
  OtherOpening other;
  void (*call_back)() = nullptr;  ///< lets another plug-in call back
  std::future<void> callbacks;
  bool have_returned = false;
};
std::unique_ptr<Observed> observed;

bool be_observed() {
  observed->other.begin(plugin_path("observed"));
  observed->callbacks = std::async(std::launch::async, observed->call_back);
  // Callbacks that need the end of the initialization would wait forever.
  observed->have_returned =
      observed->callbacks.wait_for(std::chrono::minutes(1)) == std::future_status::ready;
  observed->other.note_initialized();
  return true;
}

bool fail_once() {
  if (plugin_calls(plugin_path("reluctant"), "Plugin_Initialize") > 1) {
    observed->other.note_initialized();
    return true;
  }
  observed->other.begin(plugin_path("reluctant"));
  return false;
}

}  // namespace

TEST_CASE("a plug-in that initializes itself delays no callback of another one, and does so once") {
  const std::string path = plugin_path("observed");
  observed = std::make_unique<Observed>();
  observed->call_back = plugin_function<void()>(plugin_path("untrue"), "berth_test_pjrt_call_back");
  // These callbacks come after a refusal, so berth looks up whose they are.
  PluginFixture fixture({{"late", true}, {"callback", "after a refusal"s}}, "untrue");
  const auto content = numbered_bytes(1000);
  fixture.buffers().create(fixture.device(0), content.data(), content.size()).ready().wait();

  at_initialization(path, &be_observed);
  const auto backend = open_pjrt({"", path});
  CHECK(observed->other.end());
  observed->callbacks.get();
  CHECK(observed->have_returned);
  CHECK(plugin_calls(path, "Plugin_Initialize") == 1);
  CHECK(plugin_calls(path, "Client_Create") == 2);
  fixture.buffers().create(fixture.device(0), content.data(), content.size()).ready().wait();
  observed->call_back();
}

TEST_CASE("a plug-in whose initialization fails is initialized by the next thread that opens it") {
  const std::string path = plugin_path("reluctant");
  observed = std::make_unique<Observed>();
  at_initialization(path, &fail_once);
  CHECK(contains(message_of<BackendError>([&] {
                   return open_pjrt({"", path});
                 }),
                 "PJRT_Plugin_Initialize failed with UNAVAILABLE (14): told to fail"));
  CHECK(observed->other.end());
  CHECK(plugin_calls(path, "Plugin_Initialize") == 2);
  const auto backend = open_pjrt({"", path});
  CHECK(plugin_calls(path, "Plugin_Initialize") == 2);
}

}  // namespace pjrt_opening_test
