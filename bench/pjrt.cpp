// SPDX-License-Identifier: Apache-2.0
// What does berth add to a PJRT plug-in? Wall time of one transfer, from its start to its end,
// beside the same transfer by the plug-in's own calls. BERTH_BENCH_PJRT is the path of the plug-in,
// with options as in BERTH_CONF; without it, all is left out. The Runtime uses no CUDA device: one
// that does makes one more driver call for each transfer, which asks what the host memory is.
//   pjrt_in       a buffer is created from host memory, awaited and destroyed
//   pjrt_out      a buffer is read into host memory
//   pjrt_devices  all devices of all types are described, as `berth devices` does
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "berth/bytes.hpp"

#include "pjrt/pjrt_functions.hpp"
#include "runtime/pjrt_text.hpp"
#include "support/benchmarks.hpp"

namespace berth::bench {
namespace {

constexpr const char* kVariable = "BERTH_BENCH_PJRT";
constexpr std::size_t kSizes[] = {4_KiB, 1_MiB, 16_MiB};

/// A client of its own, called as the plug-in's header says.
class Plugin {
 public:
  explicit Plugin(const std::string& path) {
    void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) throw std::runtime_error(dlerror());
    table_ = reinterpret_cast<pjrt::GetTable*>(dlsym(library, "GetPjrtApi"))();
    pjrt::ClientCreateArgs created{};
    call(pjrt::client_create, created);
    client_ = created.client;
    pjrt::ClientDevicesArgs devices{};
    devices.client = client_;
    call(pjrt::client_devices, devices);
    device_ = devices.devices[0];
  }
  ~Plugin() {
    pjrt::ClientDestroyArgs args{};
    args.client = client_;
    call(pjrt::client_destroy, args);
  }
  Plugin(const Plugin&) = delete;
  Plugin& operator=(const Plugin&) = delete;

  [[nodiscard]] pjrt::Buffer* create(const std::vector<std::byte>& content) const {
    const auto bytes = static_cast<std::int64_t>(content.size());
    pjrt::BufferFromHostArgs args{};
    args.client = client_;
    args.data = content.data();
    args.element_type = pjrt::kElementU8;
    args.dims = &bytes;
    args.dim_count = 1;
    args.host_buffer_semantics = pjrt::kUntilTransferCompletes;
    args.device = device_;
    call(pjrt::buffer_from_host, args);
    if (args.done_with_host_buffer != nullptr) await(args.done_with_host_buffer);
    pjrt::ReadyEventArgs ready{};
    ready.buffer = args.buffer;
    call(pjrt::ready_event, ready);
    await(ready.event);
    return args.buffer;
  }
  void read(pjrt::Buffer* source, std::vector<std::byte>& target) const {
    pjrt::ToHostArgs args{};
    args.source = source;
    args.target = target.data();
    args.target_bytes = target.size();
    call(pjrt::to_host, args);
    await(args.event);
  }
  void destroy(pjrt::Buffer* buffer) const {
    pjrt::BufferArgs args{};
    args.buffer = buffer;
    call(pjrt::buffer_destroy, args);
  }

 private:
  template <class Args>
  void call(const pjrt::Function<Args>& function, Args& args) const {
    args.struct_size = function.args_bytes;
    void* address = nullptr;
    std::memcpy(&address, reinterpret_cast<const char*>(table_) + pjrt::slot_offset(function.slot),
                sizeof address);
    if (reinterpret_cast<pjrt::Error* (*)(Args*)>(address)(&args) != nullptr)
      throw std::runtime_error(std::string(function.name) + " failed");
  }
  void await(pjrt::Event* event) const {
    pjrt::EventArgs args{};
    args.event = event;
    call(pjrt::event_await, args);
    call(pjrt::event_destroy, args);
  }

  const pjrt::Table* table_ = nullptr;
  pjrt::Client* client_ = nullptr;
  pjrt::Device* device_ = nullptr;
};

template <class Run>
void add_by_wall_time(Session& session, const char* figure, const char* peer,
                      const std::string& row, Run run) {
  add(session, figure, peer, row, std::move(run))->UseRealTime();
}

void add_transfers(Session& session, DeviceBuffers& buffers, const std::shared_ptr<Plugin>& plugin,
                   Device device, std::size_t bytes) {
  const std::string row = format_bytes(bytes);
  const auto memory = std::make_shared<std::vector<std::byte>>(bytes, std::byte{1});
  add_by_wall_time(session, "pjrt_in", "berth", row, [=, &buffers](benchmark::State& state) {
    for (auto _ : state) buffers.create(device, memory->data(), memory->size()).ready().wait();
    state.SetItemsProcessed(state.iterations());
  });
  add_by_wall_time(session, "pjrt_in", "plugin", row, [=](benchmark::State& state) {
    for (auto _ : state) plugin->destroy(plugin->create(*memory));
    state.SetItemsProcessed(state.iterations());
  });
  add_by_wall_time(session, "pjrt_out", "berth", row, [=, &buffers](benchmark::State& state) {
    const DeviceBuffer source = buffers.create(device, memory->data(), memory->size());
    source.ready().wait();
    for (auto _ : state) source.read(memory->data(), 0, memory->size()).wait();
    state.SetItemsProcessed(state.iterations());
  });
  add_by_wall_time(session, "pjrt_out", "plugin", row, [=](benchmark::State& state) {
    pjrt::Buffer* const source = plugin->create(*memory);
    for (auto _ : state) plugin->read(source, *memory);
    plugin->destroy(source);
    state.SetItemsProcessed(state.iterations());
  });
}

void describe_all(benchmark::State& state, Runtime& runtime) {
  const DeviceRegistry& devices = runtime.devices();
  for (auto _ : state) {
    for (const DeviceType type : devices.types()) {
      for (int index = 0; index < devices.count(type); ++index) {
        const Device device = Device::of(type, index);
        if (device.is_cuda())
          static_cast<void>(devices.info(device));
        else if (!device.is_cpu())
          static_cast<void>(devices.describe(device));
      }
    }
  }
  state.SetItemsProcessed(state.iterations());
}

}  // namespace

void add_benchmarks(Session& session) {
  const char* const text = std::getenv(kVariable);
  const auto plugins = read_pjrt(text == nullptr ? "none" : "bench:" + std::string(text));
  if (!plugins || plugins->empty()) {
    for (const char* const figure : {"pjrt_in", "pjrt_out", "pjrt_devices"})
      leave_out(figure, "BERTH_BENCH_PJRT names no plug-in");
    return;
  }
  const PjrtPlugin& named = plugins->front();
  // Not destroyed, because its benchmarks are not.
  Runtime& runtime = *new Runtime({.driver = session.runtime().driver().name});
  runtime.register_pjrt("bench", named.path, named.options);
  const auto plugin = std::make_shared<Plugin>(named.path);
  const Device device = Device::of(DeviceType::register_name("bench"), 0);
  for (const std::size_t bytes : kSizes)
    add_transfers(session, runtime.buffers(), plugin, device, bytes);
  add_by_wall_time(session, "pjrt_devices", "berth", "",
                   [&runtime](benchmark::State& state) { describe_all(state, runtime); });
}

}  // namespace berth::bench
