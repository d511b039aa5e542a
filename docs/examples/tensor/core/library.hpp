// SPDX-License-Identifier: Apache-2.0
// The one object that owns everything, and devices as users write them.
#pragma once

#include <berth/berth.hpp>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "kernels.hpp"

namespace mini {

/// berth's device, made from text where a function takes one: "cpu", "cuda", "cuda:1".
struct Device : berth::Device {
  Device(const char* text) : berth::Device(parse(text)) {}
  Device(const std::string& text) : berth::Device(parse(text)) {}
  Device(berth::Device device) : berth::Device(device) {}
  /// Of a registered type: its memory is buffers without addresses, and it runs no kernels of ours.
  [[nodiscard]] bool is_opaque() const { return !is_cpu() && !is_cuda(); }
};

/// Owns the devices, their memory and their streams. main() creates the only one; every tensor must
/// be gone before it ends. A library that is loaded into other programs would create it with `new`
/// at its first use and never destroy it, as berth::Runtime describes under "Lifetime".
class Library {
 public:
  using MakeKernels = std::function<std::unique_ptr<Kernels>(berth::Runtime& runtime)>;

  explicit Library(const MakeKernels& make_kernels, berth::RuntimeOptions options = {})
      : runtime(std::move(options)), kernels(make_kernels(runtime)) {
    current = this;
  }
  ~Library() { current = nullptr; }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  /// The stream of operators on a device: the one that a berth::StreamGuard has made current, or
  /// else a stream of the library's own. Not the legacy default stream: it takes no batches.
  berth::StreamRef stream(Device device) {
    const berth::StreamRef selected = runtime.current_stream(device);
    if (!selected.is_legacy_default()) return selected;
    const std::scoped_lock lock(mutex_);
    berth::Stream& own = streams_[selected.device()];
    if (!own) own = runtime.create_stream(device);
    return own;
  }

  /// The streams between which a copy is made. On the host's side, that of the other side.
  berth::CopyStreams streams(Device target, Device source) {
    return {.target_stream = stream(target.is_cpu() ? source : target),
            .source_stream = stream(source.is_cpu() ? target : source)};
  }

  inline static Library* current = nullptr;
  berth::Runtime runtime;
  std::unique_ptr<Kernels> kernels;

 private:
  std::mutex mutex_;
  std::map<berth::Device, berth::Stream> streams_;  ///< guarded by mutex_
};

inline Library& library() {
  return *Library::current;
}
inline const berth::DeviceRegistry& devices() {
  return library().runtime.devices();
}

inline int device_count() {
  return devices().count();
}
inline bool is_available() {
  return devices().is_available();
}
inline Device current_device() {
  return devices().current();
}
inline void set_device(Device device) {
  devices().set_current(device);
}
/// Waits for the work of the current stream of a device.
inline void synchronize(Device device) {
  library().stream(devices().resolve(device)).sync();
}

}  // namespace mini
